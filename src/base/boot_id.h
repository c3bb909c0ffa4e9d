// The kernel's id of this boot.
#pragma once

#include <string>

namespace quarry {

// Empty if the kernel does not tell it. Reads /proc/sys/kernel/random/boot_id each time (random(4)).
std::string BootId();

}  // namespace quarry
