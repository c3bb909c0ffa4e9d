// The words of the report command, checks of names, which commands only watch, and LVM's version from its
// output. The commands that change a group are in change.h. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// The report that a snapshot is made of. kInvalidArgument if the name is not one that LVM accepts.
Result<Words> ReadArguments(const std::string& group);
// Whether the command spends most of its time waiting for the kernel. Such a command may be killed, because
// the next one resumes its work.
bool OnlyWatches(const Words& arguments);

// "2.03.16" from the output of `lvm version`. kCorrupt if the output has no version.
Result<std::string> ParseVersion(const std::string& output);

}  // namespace quarry::lvm
