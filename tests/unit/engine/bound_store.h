// The store of a copy that a killed quarryd left: bound to a volume that it was copying while in use.
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "engine/plan/plan_cow.h"
#include "tests/fakes/fake_lvm.h"

namespace quarry::engine {

// Returns the name of its LV, which is on a disk that the volume does not use.
inline std::string BindStore(fakes::FakeLvm& fake, const std::string& id) {
  const Call soon = CallWithin(std::chrono::seconds(20));
  const Catalog catalog = ReadCatalog("default", *fake.Read("vg0", soon));
  std::string store = lvm::NewLvName();
  const auto keep = PlanKeep(catalog, *catalog.ById(id), {.name = "default", .group = "vg0"}, store, "");
  EXPECT_TRUE(keep.has_value()) << keep.error().message();
  const Status bound = fake.Apply(std::get<lvm::Change>(keep->front()), soon);
  EXPECT_TRUE(bound.has_value()) << bound.error().message();
  return store;
}

}  // namespace quarry::engine
