# weft_embed(OUTPUT INCLUDE NAME FILE [NAME FILE]...): writes a C source with each file as
# the array NAME and its length as NAME_len, declared in INCLUDE.  CMake writes it again if a file
# changes.
function(weft_embed output include)
    set(text "#include \"${include}\"\n")
    while(ARGN)
        list(POP_FRONT ARGN name file)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(READ ${file} bytes HEX)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
        string(REGEX REPLACE "((0x..,){16})" "\\1\n" bytes "${bytes}")
        string(APPEND text "\nconst unsigned char ${name}[] = {\n${bytes}};\n"
                           "const size_t ${name}_len = sizeof ${name};\n")
    endwhile()
    file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
