// The thin store of a test on real LVM, as LVM's commands show and remove it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/vm/fixture.h"

namespace quarry::vm {

// The name of the store's thin pool; empty: there is none.
inline std::string StorePool() {
  return Trim(Tool({"lvs", "--noheadings", "-o", "lv_name", "-S", "segtype=thin-pool", kGroup}).out);
}

// How the store is, as quarryctl says: "rw", "damaged", …
inline std::string StoreMode() {
  return Trim(Sh("quarryctl store list | awk 'NR == 2 {print $3}'").out);
}

// An administrator removes the store with all that is in it, if there is one: the group must be left empty.
inline void RemoveStore() {
  const std::string pool = StorePool();
  if (pool.empty()) {
    return;
  }
  Outcome removed;
  EXPECT_TRUE(Eventually([&] {
    return (removed = Tool({"lvremove", "-ff", "-y", std::string(kGroup) + "/" + pool})).ok();
  })) << removed.err;
  // LVM of this guest leaves the nodes of what it removes to udev, which is not there. A pool has a link
  // until the first volume is made in it, and the next vgcreate refuses a group that has a folder in /dev.
  Tool({"dmsetup", "mknodes"});
  Tool({"vgmknodes", kGroup});
  const std::filesystem::path link = std::filesystem::path("/dev") / kGroup / pool;
  if (std::filesystem::is_symlink(link) && !std::filesystem::exists(link)) {
    std::filesystem::remove(link);
    std::error_code not_empty;
    std::filesystem::remove(link.parent_path(), not_empty);
  }
}

}  // namespace quarry::vm
