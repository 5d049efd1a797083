/* What tells whether this kernel was built from the sources that its callers in Python were written for. */
#include "kernel.h"

EXPORT int64_t kernel_interface(void) { return INTERFACE; }
