// The lvm commands behind LvmApi's verbs, as argument vectors from the verb on. Pure.
//
// Nothing is left to LVM's defaults that matters: sizes are extents, places are PV ranges, wiping is said
// either way, questions are answered beforehand (-y), names come after "--".
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm {

// "group/name", as LVM writes it.
std::string FullName(const std::string& group, const std::string& name);

// All of them: kInvalidArgument if a name is not one that LVM takes as a plain name.
Result<std::vector<std::string>> ReadArguments(const std::string& group);
Result<std::vector<std::string>> CreateArguments(const CreateGroup& spec);
// The new LV bears LVM's skip flag, so that boot services and hotplug rules of the host (vgchange -aay) leave
// it alone: only ActivateArguments activates it. Unlike --setautoactivation, lvcreate takes that for raid as
// well.
Result<std::vector<std::string>> CreateArguments(const CreateLv& spec);
Result<std::vector<std::string>> ExtendArguments(const ExtendLv& spec);
// Never with --force: lvm then refuses LVs that are open.
Result<std::vector<std::string>> RemoveArguments(const std::string& group,
                                                 const std::vector<std::string>& names, uint64_t seqno);
Result<std::vector<std::string>> TagArguments(const std::string& group, const std::string& name,
                                              const std::vector<std::string>& add,
                                              const std::vector<std::string>& remove);
Result<std::vector<std::string>> ActivateArguments(const std::string& group,
                                                   const std::vector<std::string>& names);
Result<std::vector<std::string>> DeactivateArguments(const std::string& group, const std::string& name,
                                                     uint64_t seqno);
// As CreateArguments of a group, without -y: a signature that LVM finds after all stops it.
Result<std::vector<std::string>> AddArguments(const AddPv& spec);
// LVM replaces the legs that lie on missing PVs, or on the one to be left, no others.
Result<std::vector<std::string>> RepairArguments(const RepairLv& spec);
Result<std::vector<std::string>> RefreshArguments(const std::string& group,
                                                  const std::vector<std::string>& names);
Result<std::vector<std::string>> LimitRecoveryArguments(const std::string& group,
                                                        const std::vector<std::string>& names, Bytes rate);
Result<std::vector<std::string>> RestorePvArguments(const std::string& group, const std::string& device);
// Without --force: LVM then refuses while a logical volume has extents there.
Result<std::vector<std::string>> DropMissingPvsArguments(const std::string& group);
Result<std::vector<std::string>> ChangePvArguments(const PvChange& spec);
// In the foreground, until the extents are elsewhere.
Result<std::vector<std::string>> MoveArguments(const MoveExtents& spec);
// Of one PV: without it LVM would call off every move in every group that it sees.
Result<std::vector<std::string>> AbandonMoveArguments(const std::string& group, const std::string& device);
// Whether most of the command's time goes into waiting for the kernel: it may be ended then, for who comes
// next goes on with what it began.
bool OnlyWatches(const std::vector<std::string>& arguments);
Result<std::vector<std::string>> ReducePvArguments(const std::string& group, const std::string& device);

// "2.03.16" out of the output of `lvm version`. kCorrupt if it is not there.
Result<std::string> ParseVersion(const std::string& output);

}  // namespace quarry::lvm
