// The lvm command of each LvmApi verb, as an argument vector that starts with LVM's verb. Pure.
//
// Nothing that matters is left to LVM's defaults: sizes are extents, places are PV ranges, wiping is always
// stated, questions are answered in advance (-y), names follow "--".
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm {

// "group/name", as LVM writes it.
std::string FullName(const std::string& group, const std::string& name);

// All functions below: kInvalidArgument if a name is not one that LVM accepts as a plain name.
Result<std::vector<std::string>> ReadArguments(const std::string& group);
Result<std::vector<std::string>> CreateArguments(const CreateGroup& spec);
// The new LV gets LVM's activation-skip flag. The host's boot services and hotplug rules (vgchange -aay) then
// do not activate it; only ActivateArguments does. Unlike --setautoactivation, lvcreate accepts this flag for
// raid.
Result<std::vector<std::string>> CreateArguments(const CreateLv& spec);
Result<std::vector<std::string>> ExtendArguments(const ExtendLv& spec);
// Never with --force, so that lvm refuses LVs that are open.
Result<std::vector<std::string>> RemoveArguments(const std::string& group,
                                                 const std::vector<std::string>& names, uint64_t seqno);
Result<std::vector<std::string>> TagArguments(const std::string& group, const std::string& name,
                                              const std::vector<std::string>& add,
                                              const std::vector<std::string>& remove);
Result<std::vector<std::string>> ActivateArguments(const std::string& group,
                                                   const std::vector<std::string>& names);
Result<std::vector<std::string>> DeactivateArguments(const std::string& group, const std::string& name,
                                                     uint64_t seqno);
// As CreateArguments of a group, but without -y: the command fails if LVM finds a signature after all.
Result<std::vector<std::string>> AddArguments(const AddPv& spec);
// LVM replaces only the legs on missing PVs, or on the PV to evacuate.
Result<std::vector<std::string>> RepairArguments(const RepairLv& spec);
Result<std::vector<std::string>> RefreshArguments(const std::string& group,
                                                  const std::vector<std::string>& names);
Result<std::vector<std::string>> LimitRecoveryArguments(const std::string& group,
                                                        const std::vector<std::string>& names, Bytes rate);
Result<std::vector<std::string>> RestorePvArguments(const std::string& group, const std::string& device);
// Without --force, so that LVM refuses while a logical volume has extents there.
Result<std::vector<std::string>> DropMissingPvsArguments(const std::string& group);
Result<std::vector<std::string>> ChangePvArguments(const PvChange& spec);
// Runs in the foreground until the extents are moved.
Result<std::vector<std::string>> MoveArguments(const MoveExtents& spec);
// For one PV: without a PV, LVM would abort every move in every group that it sees.
Result<std::vector<std::string>> AbandonMoveArguments(const std::string& group, const std::string& device);
// Whether the command spends most of its time waiting for the kernel. Such a command may be killed, because
// the next one resumes its work.
bool OnlyWatches(const std::vector<std::string>& arguments);
Result<std::vector<std::string>> ReducePvArguments(const std::string& group, const std::string& device);

// "2.03.16" from the output of `lvm version`. kCorrupt if the output has no version.
Result<std::string> ParseVersion(const std::string& output);

}  // namespace quarry::lvm
