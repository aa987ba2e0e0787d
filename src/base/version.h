/* The prototypes of weft/weft.h, which base must not include: it names all other modules. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

const char *weft_version(void);
const char *weft_build_info(void);

#endif
