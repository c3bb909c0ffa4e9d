// What `volume …` and `apply` share.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "ctl/volume_client.h"

namespace quarry::ctl {

// How long a change may wait for another one, for quarryd's restart, or for space that is being erased.
constexpr std::chrono::minutes kChangePatience{10};

// Writes the reason of a wait to standard error.
void TellWaiting(const std::string& why);

// Prepares the directory, mounts the volume there and returns the path. `path` empty: at its mount point.
// Symbolic links in it are followed.
Result<std::string> MountVolume(VolumeClient& client, const VolumeRow& row, const std::string& path,
                                const std::vector<std::string>& options);

// Whether such a volume could be made now, without making it. kInvalidArgument: a parameter. kNoSpace: the
// error tells how large it could be. Returns the largest size.
Result<Bytes> CheckNewVolume(VolumeClient& client, const NewVolume& wish);

// Asks the user at a terminal to type `word`. kInvalidArgument: there is no terminal. kCancelled: he did not.
Status Confirm(const std::string& warning, const std::string& word);

}  // namespace quarry::ctl
