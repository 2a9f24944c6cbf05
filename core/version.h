/* core/version.h - the program's version, from the file VERSION. */
#ifndef BALLAST_CORE_VERSION_H
#define BALLAST_CORE_VERSION_H

extern const char ballast_version[]; /* "0.1.0" */

#endif
