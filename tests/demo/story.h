// The demo: shows a volume's whole life while it happens, through the real gRPC socket.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/demo/narrator.h"
#include "tests/vm/kit/csi_client.h"
#include "tests/vm/kit/quarryd_process.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::demo {

struct Setting {
  std::vector<std::string> devices;  // four blank disks; vmctl numbers them in this order from 1
  std::string where;                 // "in a virtual machine with four NVMe disks"
  std::string group = "demo";
  std::string folder = "/run/quarry-demo";  // socket, log, mount points
  bool vmctl = false;                       // true if a disk can be pulled
  bool keep = false;
};

class Story {
 public:
  Story(Setting setting, Narrator& narrator);
  // Unmounts what is still mounted. Ends quarryd, unless the demo succeeded and was to keep it.
  ~Story();
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  // From blank disks to blank disks. Returns the error of the first step that fails.
  Status Tell();

 private:
  // A volume and its pod.
  struct Pod {
    std::string name;
    std::string plan;  // for the reader: "raid1"
    vm::VolumeSpec spec;
    uint64_t seed = 0;
    vm::v1::Volume volume;
    bool published = false;
    std::string Data(const std::string& target) const;
  };

  Status MakeGroup();
  Status StartQuarryd();
  Status ShowCapacity();
  Status MakeVolumes();
  Status KillQuarryd();
  Status PullADisk();
  Status RawVolume();
  Status GiveEverythingBack();
  Status Finish();

  Status Create(Pod& pod);
  Status StageAndPublish(Pod& pod);
  Status Write(const Pod& pod);
  Status Verify(const Pod& pod, const std::string& who);
  // Waits until the volume is abnormal, or no longer abnormal.
  Status WaitForCondition(const Pod& pod, bool abnormal);
  Status TakeAway(Pod& pod);
  Result<std::vector<std::set<std::string>>> LegDevices(const Pod& pod) const;
  // The disks of the volume's legs: "nvme1n1 nvme2n1".
  Result<std::string> Legs(const Pod& pod) const;
  Result<std::vector<int64_t>> Capacities();
  Status Start();

  std::string Staging(const Pod& pod) const { return setting_.folder + "/staging/" + pod.name; }
  std::string Target(const Pod& pod) const { return setting_.folder + "/pods/" + pod.name + "/volume"; }

  Setting setting_;
  Narrator& tell_;
  std::unique_ptr<vm::VolumeGroup> group_;
  vm::QuarrydOptions options_;
  std::unique_ptr<vm::QuarrydProcess> quarryd_;
  std::unique_ptr<vm::CsiClient> client_;
  std::vector<int64_t> capacities_;  // at the beginning, in the order of the profiles
  int64_t free_extents_ = 0;
  std::vector<Pod> pods_;
  bool kept_ = false;
};

}  // namespace quarry::demo
