# Builds and installs libweft, one transport module per installed MPI, and the weft program.

# ---- Sources ------------------------------------------------------------------------------------
list(FILTER weft_sources EXCLUDE REGEX "^src/(base|config|planning)/")       # libweft-plan
list(FILTER weft_sources EXCLUDE REGEX "^src/runtime/comm/mpi/")             # transport modules
set(program_sources ${weft_sources})
list(FILTER program_sources INCLUDE REGEX "^src/(cli|manual|terminal)/")
set(bench_sources ${weft_sources})
list(FILTER bench_sources INCLUDE REGEX "^src/bench/")
set(conformance_sources ${weft_sources})
list(FILTER conformance_sources INCLUDE REGEX "^src/conformance/")
list(FILTER weft_sources EXCLUDE REGEX "^src/(cli|manual|terminal|bench|conformance)/")

# The fast kernels are compiled once for each instruction set.  The program selects one when it starts
# (compute/kern/isa.h).
set(fast_sources ${weft_sources})
list(FILTER fast_sources INCLUDE REGEX "^src/compute/kern/fast/")
list(FILTER weft_sources EXCLUDE REGEX "^src/compute/kern/fast/")
# The fake stack of GCC's address sanitizer does not keep the alignment of vectors.
set(vector_options $<$<C_COMPILER_ID:GNU>:--param=asan-use-after-return=0>)
set(fast_options -Wno-psabi $<$<CONFIG:Release>:-O3> ${vector_options})
if(WEFT_FUZZ) # no fuzz target calls kernels, and clang takes minutes to instrument them
    list(APPEND fast_options -fno-sanitize=all)
endif()
set(isa_names portable)
set(isa_flags_portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isa_names avx2 avx512)
    set(isa_flags_avx2 -mavx2 -mfma -mf16c)
    set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
        -mprefer-vector-width=512)
    set_source_files_properties(src/compute/kern/gemm_bf16.c src/compute/kern/peak_bf16.c
                                PROPERTIES COMPILE_OPTIONS
                                "${isa_flags_avx512};-mavx512bf16;${vector_options}")
endif()
set_source_files_properties(${fast_sources} PROPERTIES COMPILE_OPTIONS "${fast_options}")
set(fast_objects)
foreach(isa IN LISTS isa_names)
    add_library(weft_fast_${isa} OBJECT ${fast_sources})
    set_target_properties(weft_fast_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(weft_fast_${isa} PRIVATE WEFT_ISA_SUFFIX=${isa})
    target_link_libraries(weft_fast_${isa} PRIVATE weft_flags)
    target_compile_options(weft_fast_${isa} PRIVATE ${isa_flags_${isa}})
    list(APPEND fast_objects $<TARGET_OBJECTS:weft_fast_${isa}>)
endforeach()

# ---- libweft: all modules except those of the program --------------------------------------------
weft_embed(${PROJECT_BINARY_DIR}/report_bytes.c training/report/page_priv.h
           wf_report_script ${PROJECT_SOURCE_DIR}/src/training/report/report.js
           wf_report_style ${PROJECT_SOURCE_DIR}/src/training/report/report.css)
weft_embed(${PROJECT_BINARY_DIR}/modeling_bytes.c training/ckpt/hf_priv.h
           wf_hf_modeling ${PROJECT_SOURCE_DIR}/src/training/ckpt/modeling_weft.py)

set(WEFT_LIBS ${PLAN_LIBS} pthread dl bz2)
set(WEFT_PKGS ${PLAN_PKGS} cairo hwloc libxxhash libutf8proc libmicrohttpd zlib libzstd liblzma)
weft_find_packages(WEFT)
weft_add_objects(weft_objects WEFT ${weft_sources} ${PROJECT_BINARY_DIR}/report_bytes.c
                 ${PROJECT_BINARY_DIR}/modeling_bytes.c)
weft_add_libraries(weft weft WEFT $<TARGET_OBJECTS:weft_plan_objects>
                   $<TARGET_OBJECTS:weft_objects> ${fast_objects})
weft_install_library(weft weft WEFT ${PROJECT_DESCRIPTION})

# ---- libweft-conformance: tests of transports, for programs that bring their own --------------------
add_library(weft_conformance STATIC ${conformance_sources})
target_link_libraries(weft_conformance PRIVATE weft_flags)
set_target_properties(weft_conformance PROPERTIES OUTPUT_NAME weft-conformance
                      POSITION_INDEPENDENT_CODE ON)
weft_write_pc(weft-conformance "Tests of transports for libweft (weft/transport.h)" "" "" weft)
install(TARGETS weft_conformance)

# ---- Transport modules: one for each installed MPI ------------------------------------------------
# Only these modules link MPI.  They are beside the program, which loads one if that MPI launched it.
set(WEFT_MPIS)
set(mpi_sources src/runtime/comm/mpi/module.c src/runtime/comm/mpi/control.c src/base/error.c)
set(mpi_package_openmpi ompi-c) # pkg-config names that do not depend on Debian's alternatives
set(mpi_package_mpich mpich)
set(mpi_library_openmpi mpi)
set(mpi_library_mpich mpich)

# weft_add_mpi_module(target mpi)
function(weft_add_mpi_module target mpi)
    list(TRANSFORM mpi_sources PREPEND ${PROJECT_SOURCE_DIR}/)
    add_library(${target} MODULE ${mpi_sources})
    target_include_directories(${target} SYSTEM PRIVATE ${MPI_${mpi}_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE weft_flags ${MPI_${mpi}_PATH})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME weft-${mpi})
endfunction()

if(NOT WEFT_FUZZ)
    foreach(mpi IN ITEMS openmpi mpich)
        pkg_check_modules(MPI_${mpi} QUIET ${mpi_package_${mpi}})
        find_library(MPI_${mpi}_PATH ${mpi_library_${mpi}} HINTS ${MPI_${mpi}_LIBRARY_DIRS}
                     ${MPI_${mpi}_LIBDIR})
        find_program(MPI_${mpi}_RUN mpirun.${mpi})
        if(MPI_${mpi}_FOUND AND MPI_${mpi}_PATH)
            message(STATUS "MPI: ${mpi} ${MPI_${mpi}_VERSION}, module weft-${mpi}.so")
            weft_add_mpi_module(weft_${mpi} ${mpi})
            set_target_properties(weft_${mpi} PROPERTIES
                                  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
            list(APPEND WEFT_MPIS ${mpi})
        else()
            message(STATUS "MPI: ${mpi} is not installed, weft-${mpi}.so is not built")
        endif()
    endforeach()
endif()

# ---- The weft program, its manual pages and its shell completion ----------------------------------
add_library(weft_bench STATIC ${bench_sources}) # only for the program and its tests; not installed
target_link_libraries(weft_bench PUBLIC weft_static PRIVATE weft_flags)
# Everything but main(), so that fuzz targets can use the commands' tables and printers.
set(command_sources ${program_sources})
list(REMOVE_ITEM command_sources src/cli/main.c)
add_library(weft_commands STATIC ${command_sources}) # not installed
target_link_libraries(weft_commands PUBLIC weft_bench weft_static
                      PRIVATE weft_flags weft_version)
add_executable(weft src/cli/main.c)
target_link_libraries(weft PRIVATE weft_flags weft_version weft_commands)

# weft_add_page(file word...): writes the output of "weft help <words>" to a file.
function(weft_add_page file)
    add_custom_command(OUTPUT ${file}
                       COMMAND weft help ${ARGN} > ${file}.new
                       COMMAND ${CMAKE_COMMAND} -E rename ${file}.new ${file}
                       DEPENDS weft VERBATIM)
endfunction()
weft_add_page(weft.man --man)
weft_add_page(weft.completion --completion)
# Each command has a manual page: cli/cmd_plan.c is weft-plan(1).
set(commands ${program_sources})
list(FILTER commands INCLUDE REGEX "^src/cli/cmd_[a-z]+\\.c$")
list(TRANSFORM commands REPLACE "^src/cli/cmd_([a-z]+)\\.c$" "\\1")
set(command_pages)
foreach(command IN LISTS commands)
    weft_add_page(weft-${command}.man --man ${command})
    list(APPEND command_pages weft-${command}.man)
endforeach()
if(NOT WEFT_FUZZ)
    add_custom_target(weft_pages ALL DEPENDS weft.man weft.completion ${command_pages})
endif()

# ---- Install ------------------------------------------------------------------------------------
install(TARGETS weft)
foreach(mpi IN LISTS WEFT_MPIS)
    install(TARGETS weft_${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/weft.man
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME weft.1)
foreach(command IN LISTS commands)
    install(FILES ${PROJECT_BINARY_DIR}/weft-${command}.man
            DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME weft-${command}.1)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/weft.completion
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weft)
