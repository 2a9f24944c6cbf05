#include "core/version.h"

#ifndef BALLAST_VERSION
#define BALLAST_VERSION "unknown"
#endif

const char ballast_version[] = BALLAST_VERSION;
