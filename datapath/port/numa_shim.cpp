// SPDX-License-Identifier: BSD-2-Clause
// EAL's references to libnuma, answered with "no NUMA": the shared library would be one more thing that can be
// missing when libfabric loads the provider, and Debian's static one is not position independent.
// Memory then follows the kernel's own policy (first touch, or the application's), which is what a library should do.
#include <cerrno>

extern "C" {
struct bitmask;
int numa_available(void) {
  return -1;
}
// EAL calls nothing below once numa_available() has said no; the linker wants them all the same.
bitmask* numa_allocate_nodemask(void) {
  return nullptr;
}
void numa_bitmask_free(bitmask*) {}
void numa_set_localalloc(void) {}
void numa_set_preferred(int) {}
long get_mempolicy(int*, unsigned long*, unsigned long, void*, unsigned) {
  errno = ENOSYS;
  return -1;
}
long set_mempolicy(int, const unsigned long*, unsigned long) {
  errno = ENOSYS;
  return -1;
}
}
