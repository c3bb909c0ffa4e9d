// Files and folders that quarryd shares with the gateway. Nothing here follows a symbolic link.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::bucket {

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};

// The folder `name` of `parent`. Errors of open(2): ENOTDIR for a link.
Result<UniqueFd> OpenFolder(int parent, const std::string& name);

// The folder, made if it is missing, with this owner and mode. kPrecondition: something that is no folder has
// the name, or the folder is another user's and not empty: then it is not ours.
Result<UniqueFd> MakeFolder(int parent, const std::string& name, Owner owner, mode_t mode);

// Writes the file whole or not at all: a new file is renamed over it. `durable`: it survives a power cut once
// this returns.
Status WriteFile(int folder, const std::string& name, std::string_view text, Owner owner, mode_t mode,
                 bool durable);

// kNotFound: there is none. kPrecondition: it is no regular file, or larger than `most` bytes.
Result<std::string> ReadFile(int folder, const std::string& name, size_t most);

// Whether something is mounted there. False also if that cannot be found out.
bool IsMountPoint(const AbsolutePath& path);

// Whether the open folder is the root of a mount of this device. kUnavailable: it is not. kIo: its file
// system has shut itself down.
Status ProveMount(int folder, dev_t device);

// The names in the folder, sorted.
Result<std::vector<std::string>> NamesIn(int folder);

// What a walk over a tenant's files has found.
struct ObjectCount {
  uint64_t objects = 0;
  bool is_complete = true;  // false: the walk met its limit, so there may be more
};
// Counts the objects below data/: regular files, and folders that are objects of their own (a key that ends
// with "/"). Unfinished uploads are none. Ends early at `most` objects or when `call` ends, at which it looks
// for each entry of each folder. Keeps no list of entries, however many there are.
Result<ObjectCount> CountObjects(int data, uint64_t most, const Call& call);

struct SweptUploads {
  uint64_t removed = 0;
  bool is_complete = true;  // false: `call` ended first
};
// Removes unfinished multipart uploads that nobody has touched since `before`. Ends early when `call` ends;
// the next sweep then removes the rest of the upload that this one has begun to remove. Keeps no list of
// entries.
Result<SweptUploads> SweepUploads(int data, std::chrono::system_clock::time_point before, const Call& call);

}  // namespace quarry::bucket
