# Functions that build and install libweft-plan and libweft.  PREFIX is PLAN or WEFT: <PREFIX>_LIBS are names
# for -l, <PREFIX>_PKGS are pkg-config names.

# weft_find_packages(PREFIX): creates the target PkgConfig::<PREFIX>_DEPS and sets the variables that the .pc
# file needs.
macro(weft_find_packages prefix)
    pkg_check_modules(${prefix}_DEPS REQUIRED IMPORTED_TARGET ${${prefix}_PKGS})
    list(JOIN ${prefix}_PKGS ", " ${prefix}_PC_REQUIRES)
    list(TRANSFORM ${prefix}_LIBS PREPEND "-l" OUTPUT_VARIABLE ${prefix}_PC_LIBS)
    list(JOIN ${prefix}_PC_LIBS " " ${prefix}_PC_LIBS)
    set(${prefix}_LINK_LIBS ${${prefix}_LIBS} PkgConfig::${prefix}_DEPS)
endmacro()

# weft_add_objects(target PREFIX source...): compiles sources once for the static and the shared library.
# There is no link-time optimization: a static library with bytecode links only with the same compiler.
function(weft_add_objects target prefix)
    add_library(${target} OBJECT ${ARGN})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
    target_link_libraries(${target} PRIVATE weft_flags weft_version ${${prefix}_LINK_LIBS})
endfunction()

# weft_add_libraries(target name PREFIX object...): adds the targets <target>_static and <target>_shared.
function(weft_add_libraries target name prefix)
    add_library(${target}_static STATIC ${ARGN})
    target_link_libraries(${target}_static PUBLIC ${${prefix}_LINK_LIBS})
    add_library(${target}_shared SHARED ${ARGN})
    target_link_libraries(${target}_shared PRIVATE weft_flags ${${prefix}_LINK_LIBS})
    if(NOT WEFT_SANITIZE) # the program defines the functions of a sanitizer
        target_link_options(${target}_shared PRIVATE LINKER:--no-undefined)
    endif()
    set_target_properties(${target}_shared PROPERTIES
                          VERSION ${PROJECT_VERSION} SOVERSION ${WEFT_SOVERSION})
    set_target_properties(${target}_static ${target}_shared PROPERTIES
                          OUTPUT_NAME ${name} LINKER_LANGUAGE C)
endfunction()

# weft_write_pc(name description private_packages private_libs packages): writes and installs <name>.pc.
# The .pc file derives the prefix from its own location, so an installed tree can be moved.
function(weft_write_pc PC_NAME PC_DESCRIPTION PC_REQUIRES PC_LIBS PC_PACKAGES)
    file(RELATIVE_PATH WEFT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" WEFT_PC_PREFIX "${WEFT_PC_PREFIX}")
    configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/${PC_NAME}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${PC_NAME}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# weft_install_library(target name PREFIX description): installs both libraries and <name>.pc.
function(weft_install_library target name prefix description)
    weft_write_pc(${name} ${description} "${${prefix}_PC_REQUIRES}" "${${prefix}_PC_LIBS}" "")
    install(TARGETS ${target}_static ${target}_shared)
endfunction()
