// What the verbs share: words of an lvm command, and names in them.
//
// Nothing that matters is left to LVM's defaults: sizes are extents, places are PV ranges, wiping is always
// stated, questions are answered in advance (-y), names follow "--".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::lvm {

// The words of a command without the program: LVM's verb first.
using Words = std::vector<std::string>;

// "group/name", as LVM writes it.
std::string FullName(const std::string& group, const std::string& name);
// "group/a group/b", for messages.
std::string FullNames(const std::string& group, const std::vector<std::string>& names);
// "group/a", or "group (3 volumes)".
std::string Several(const std::string& group, const std::vector<std::string>& names);

// kInvalidArgument if LVM does not accept the name as a plain name.
Status CheckGroupName(const std::string& group);
Status CheckNames(const std::string& group, const std::string& name);

void Append(Words& to, Words more);
// LVM checks the group's sequence number once it has the lock. 0: any.
void AppendSeqno(Words& to, uint64_t seqno);
void AppendTags(Words& to, const std::vector<std::string>& add, const std::vector<std::string>& remove);
// `to`, followed by the full names. Errors as CheckNames().
Result<Words> WithFullNames(Words to, const std::string& group, const std::vector<std::string>& names);
std::string Kib(Bytes size);

// A verb whose text is not counted: it adds none, only temporary text, or little (a PV, tags of a PV).
inline constexpr Bytes kNoText{0};
// The commits that a verb makes when it succeeds.
using CommitCount = std::optional<uint64_t>;
// A verb whose commits are not known exactly, although it may commit.
inline constexpr std::nullopt_t kNotCounted = std::nullopt;

}  // namespace quarry::lvm
