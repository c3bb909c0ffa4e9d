// The folder that quarryd and the gateway share: mount points, the links that the gateway serves, accounts,
// and the gateway's environment. It is in a file system that a reboot empties. Only the links may be
// elsewhere: the gateway keeps attributes of files there, and before Linux 6.6 such a file system has none.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "bucket/files.h"

namespace quarry::bucket {

// What the gateway is told through its environment.
struct GatewaySettings {
  std::string listen;  // "127.0.0.1:7070"
  std::string region;
  std::string certificate, key;  // paths; empty: no TLS
};

// All methods may be called from any thread, but not two that write the same file.
class ServedFolder {
 public:
  // Makes what is missing, and finds what an earlier process left. `spare`: a folder on a disk, for the links
  // if they cannot be below `path`; its parent is made too.
  static Result<ServedFolder> Make(const AbsolutePath& path, const AbsolutePath& spare, Owner gateway);

  AbsolutePath MountPoint(const std::string& lv) const;
  // Makes the directory to mount on.
  Status MakeMountPoint(const std::string& lv) const;
  // Removes it, if nothing is mounted there.
  void RemoveMountPoint(const std::string& lv) const;

  // From its link on, a bucket is reached; without its link it is not.
  Status Link(const std::string& name, const std::string& lv) const;
  Status Unlink(const std::string& name) const;
  // The same, but only if the link is this one.
  Status UnlinkFrom(const std::string& name, const std::string& lv) const;
  // The names that have a link.
  Result<std::set<std::string>> Linked() const;

  Status WriteUsers(const std::string& text) const;
  // What an earlier process wrote; empty: nothing.
  std::string ReadUsers() const;

  // The socket on which the gateway reports its requests (report_socket.h). Takes the place of that of an
  // earlier process.
  Result<UniqueFd> MakeReportSocket() const;

  // What quarry-gateway says of a gateway that does not run; empty: nothing. The gateway's user writes it, so
  // it is one short line of printable characters, whatever is in the file.
  std::string GatewayProblem() const;

  // Writes the gateway's environment. Keeps the keys of root that are there. `restart`: makes the gateway
  // restart. Without it, the gateway restarts only if the settings are others.
  Status WriteEnvironment(const GatewaySettings& settings, bool restart) const;

 private:
  ServedFolder(AbsolutePath path, AbsolutePath root_path, Owner gateway, UniqueFd top, UniqueFd volumes,
               UniqueFd root, UniqueFd iam, UniqueFd own)
      : path_(std::move(path)),
        root_path_(std::move(root_path)),
        gateway_(gateway),
        top_(std::move(top)),
        volumes_(std::move(volumes)),
        root_(std::move(root)),
        iam_(std::move(iam)),
        private_(std::move(own)) {}

  bool IsLinkedTo(const std::string& name, const std::string& target) const;
  std::string TargetOf(const std::string& lv) const;

  AbsolutePath path_, root_path_;
  Owner gateway_;
  UniqueFd top_, volumes_, root_, iam_, private_;
};

}  // namespace quarry::bucket
