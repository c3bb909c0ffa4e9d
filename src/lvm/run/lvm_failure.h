// What a failed lvm command means. Pure, and the only place that reads LVM's words.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/subprocess.h"

namespace quarry::lvm {

// The meaning of a command that ended by itself but not with status 0, with LVM's own words in the message.
//
// LVM has four failure statuses for everything (2 no such command, 3 bad arguments, 4 no start, 5 failed), so
// meaning comes from words as well. They are those of lvm2 2.03.16 to 2.03.31, and LC_ALL=C keeps them in
// English; the fixtures in tests/fixtures/lvm/*/errors hold them as both releases say them.
Error LvmFailure(std::string_view command, const Finished& finished);

// Whether the words say that there is no group of that name. Not yet proof: LVM says the same when it could
// not read the group's disks, see device_scan.h.
bool SaysNoSuchGroup(const Finished& finished);

// Whether they say that the group is there and the LV is not. That is proof: the group's metadata was read.
bool SaysNoSuchLv(const Finished& finished);

}  // namespace quarry::lvm
