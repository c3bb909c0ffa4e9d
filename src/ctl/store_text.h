// Thin stores as quarryctl prints them. Pure.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// A table with a headline; a line that says so if no pool has a store. What is wrong with a store follows it,
// and so do pools that do not serve.
std::string StoreTable(const quarry::admin::v1::GetStatusResponse& status);
// An array of objects, one for each store, with its pool.
std::string StoreListJson(const quarry::admin::v1::GetStatusResponse& status);

// All that is known of one store, and a table of the volumes in it.
std::string StorePage(const quarry::admin::v1::GetStoreResponse& store);
std::string StoreJson(const quarry::admin::v1::GetStoreResponse& store);

// "12.5 %". A part of 0 bytes is 0 %.
std::string Percent(int64_t part, int64_t whole);

// What a repair of a store has found and done, or would do.
std::string StoreRepairPage(const quarry::admin::v1::RepairStoreResponse& done, bool dry_run);

}  // namespace quarry::ctl
