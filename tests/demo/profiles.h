// The profiles in the demo's table.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace quarry::demo {

struct Profile {
  std::string name;
  std::map<std::string, std::string> parameters;  // of CreateVolume and GetCapacity
  size_t disks;                                   // the least number that the profile needs
  std::string survives;                           // how many disks may fail
};

inline const std::vector<Profile>& Profiles() {
  static const std::vector<Profile> profiles = {
      {"linear", {{"type", "linear"}}, 1, "-"},
      {"striped over 2", {{"type", "striped"}, {"stripes", "2"}}, 2, "-"},
      {"striped over 4", {{"type", "striped"}, {"stripes", "4"}}, 4, "-"},
      {"raid1, 2 copies", {{"type", "raid1"}}, 2, "1 disk"},
      {"raid1, 3 copies", {{"type", "raid1"}, {"mirrors", "2"}}, 3, "2 disks"},
      {"raid5, 2 stripes", {{"type", "raid5"}, {"stripes", "2"}}, 3, "1 disk"},
      {"raid5, 3 stripes", {{"type", "raid5"}, {"stripes", "3"}}, 4, "1 disk"},
      {"raid6, 3 stripes", {{"type", "raid6"}, {"stripes", "3"}}, 5, "2 disks"},
      {"raid10, 2 stripes", {{"type", "raid10"}, {"stripes", "2"}}, 4, "1 disk of each pair"},
  };
  return profiles;
}

}  // namespace quarry::demo
