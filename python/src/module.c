/* The extension module weft._weft: planning functions of weft for Python. */
#include "ext.h"

static int add_functions(PyObject *module)
{
    PyMethodDef *const tables[] = {wf_py_schedule_methods, wf_py_plan_methods,
                                   wf_py_search_methods, wf_py_trace_methods};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (PyModule_AddFunctions(module, tables[i]) != 0)
            return -1;
    return 0;
}

/* Exported; exports.map hides every other symbol. */
PyMODINIT_FUNC PyInit__weft(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_functions}, {0, NULL}};
    static PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT,
        .m_name = "weft._weft",
        .m_doc = "The planning functions of weft.  Use the package weft instead.",
        .m_slots = slots,
    };
    return PyModuleDef_Init(&definition);
}
