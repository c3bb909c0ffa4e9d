// Everything that Quarry lets LVM change, as values. Each value is one LVM verb. Its struct (verbs/) has
// everything about the verb: what it needs, the words of the command, what it is called in messages, how
// often it commits, and how much text it adds to the metadata area. Pure.
//
// A new verb is a struct in verbs/, a name in the list below, and the fake's behavior. A struct without Text,
// Object, Arguments, Commits, MetadataText or kReloadsTables does not compile.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/result.h"
#include "base/units.h"
#include "lvm/verbs/activation.h"  // IWYU pragma: export
#include "lvm/verbs/cow.h"         // IWYU pragma: export
#include "lvm/verbs/group.h"       // IWYU pragma: export
#include "lvm/verbs/legs.h"        // IWYU pragma: export
#include "lvm/verbs/thin.h"        // IWYU pragma: export
#include "lvm/verbs/volume.h"      // IWYU pragma: export

namespace quarry::lvm {

using Change = std::variant<CreateGroup, AddPv, RemovePv, RestorePv, DropMissingPvs, ChangePv, CreateLv,
                            ExtendLv, RemoveLvs, ChangeTags, ActivateLvs, DeactivateLv, RefreshLvs, RepairLv,
                            LimitRecovery, MoveExtents, AbortMove, CreateCow, SplitCow, DropCow, MakeThinPool,
                            AllocateAnywhere, SkipActivation, CreateThinLv, ExtendThinLv, ExtendPoolMetadata,
                            ActivateDegradedThin, SwapPoolMetadata>;

// The group that is changed.
const std::string& GroupOf(const Change& change);
// One line for administrators: "create logical volume vg0/qabc…: raid1, 26 extents on /dev/a:0-26
// /dev/b:0-26".
std::string TextOf(const Change& change);
// The words of the lvm command. kInvalidArgument if a name is not one that LVM accepts as a plain name.
Result<Words> ArgumentsOf(const Change& change);
// A lower limit of the commits that LVM makes when the change succeeds. Quarry compares it with the sequence
// number to notice commits of other processes. If it is too low, Quarry takes its own commit for one of
// another process: it zeroes extents again, or a create fails. If it is too high, a commit of another process
// may go unnoticed. RemoveLvs may succeed without its commit; its caller reads the group afterwards.
uint64_t CommitsOf(const Change& change);
// The text that the change adds to the metadata area: an upper limit, except for verbs with kNoText.
Bytes MetadataTextOf(const Change& change);

}  // namespace quarry::lvm
