// The base of every VM test: a volume group "vg" on all blank disks, quarryd serving it as pool "main", and a
// client. Every test must leave the group empty.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/vm/kit/csi_client.h"
#include "tests/vm/kit/pattern.h"
#include "tests/vm/kit/quarryd_process.h"
#include "tests/vm/kit/shell.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::vm {

inline constexpr char kGroup[] = "vg";
inline constexpr char kPool[] = "main";
inline constexpr char kSocket[] = "/run/quarry-test/csi.sock";
inline constexpr char kAdminEndpoint[] = "unix:///run/quarry/admin.sock";  // the default

class VmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { MakeGroup(); }
  // For tests that need another group: `how` has arguments of vgcreate.
  static void MakeGroup(const std::vector<std::string>& how = {"--metadatasize", "64m"});
  static void TearDownTestSuite();
  void SetUp() override;
  // Fails the test if a volume, a mount or an extent is left over, or if quarryd cannot be stopped in order.
  void TearDown() override;

  // For tests that start quarryd themselves, or not at all.
  virtual bool StartsQuarryd() const { return true; }
  void StartQuarryd(const QuarrydOptions& options = {});
  // The same for a process that may end while it starts. Returns what WaitReady returns.
  Status TryStartQuarryd(const QuarrydOptions& options);
  // SIGKILL and a new process, as after a crash or a failed upgrade.
  void KillAndRestart();

  CsiClient& client() { return *client_; }
  QuarrydProcess& quarryd() { return *quarryd_; }
  bool HasQuarryd() const { return quarryd_ != nullptr; }  // false if it could not be started
  // Nodes and links of logical volumes of the group that have names of Quarry's.
  static std::string NodesLeft();
  static VolumeGroup& group() { return *group_; }
  static int64_t TotalExtents() { return total_extents_; }

  // Creates a volume. If that fails, fails the test and returns an empty volume.
  v1::Volume MustCreate(const VolumeSpec& spec);
  // A staging directory, created as a CO creates it, and a target path whose parent exists.
  static std::string StagingPath(const std::string& name);
  static std::string TargetPath(const std::string& name);
  // The LV of a volume, from its id.
  static std::string LvOf(const v1::Volume& volume);
  static std::string NodeOf(const v1::Volume& volume) {
    return std::string("/dev/") + kGroup + "/" + LvOf(volume);
  }
  // Waits until all extents of the group are free. Erasing may take a while.
  static testing::AssertionResult ComesBackEmpty(int seconds = 120);

 private:
  void CleanUpByForce();

  static std::unique_ptr<VolumeGroup> group_;
  static int64_t total_extents_;
  std::unique_ptr<QuarrydProcess> quarryd_;
  std::unique_ptr<CsiClient> client_;
};

// Polls until `holds` returns true. Returns false if it does not within `seconds`.
bool Eventually(const std::function<bool()>& holds, int seconds = 60);

template <typename Response>
testing::AssertionResult IsOk(const Reply<Response>& reply) {
  if (reply.ok()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "code " << reply.code() << ": " << reply.text();
}

template <typename T>
testing::AssertionResult IsOk(const Result<T>& result) {
  if (result.has_value()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << CodeName(result.error().code()) << ": " << result.error().message();
}

// The call failed with this code, and its message contains `words`.
template <typename Response>
testing::AssertionResult Fails(const Reply<Response>& reply, grpc::StatusCode code,
                               const std::string& words = {}) {
  if (reply.code() != code) {
    return testing::AssertionFailure()
           << "expected code " << code << ", got " << reply.code() << ": " << reply.text();
  }
  if (reply.text().find(words) == std::string::npos) {
    return testing::AssertionFailure() << "the message does not name '" << words << "': " << reply.text();
  }
  return testing::AssertionSuccess();
}

}  // namespace quarry::vm

#define ASSERT_OK(call) ASSERT_TRUE(::quarry::vm::IsOk(call))
#define EXPECT_OK(call) EXPECT_TRUE(::quarry::vm::IsOk(call))
