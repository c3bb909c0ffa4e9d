// What a failed lvm command means. Pure. Only this file interprets LVM's words.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/subprocess.h"

namespace quarry::lvm {

// The meaning of a command that ended with a status other than 0, or by a signal. The message contains LVM's
// own words.
//
// LVM has only four failure statuses (2 no such command, 3 bad arguments, 4 not started, 5 failed), so the
// meaning comes from the words too. The words are those of lvm2 2.03.16 to 2.03.31; LC_ALL=C keeps them in
// English. The fixtures in tests/fixtures/lvm/*/errors have the words of both releases.
Error LvmFailure(std::string_view command, const Finished& finished);

// Whether LVM failed because the LV has the size or the allocation policy that it was to get. This is proof:
// LVM has read the group.
bool SaysNothingToChange(const Finished& finished);

// Whether LVM says that no group of that name exists. This is not proof: LVM says the same when it could not
// read the group's disks, see device_scan.h.
bool SaysNoSuchGroup(const Finished& finished);

// Whether LVM says that the group exists and the LV does not. This is proof: LVM has read the group's
// metadata.
bool SaysNoSuchLv(const Finished& finished);

}  // namespace quarry::lvm
