// Buckets as quarryctl prints them. Pure. Only the text of a grant has a secret.
#pragma once

#include <string>

#include <quarry/admin/v1/buckets.pb.h>

namespace quarry::ctl {

// A table with a headline; a line that says so if there is no bucket. What is wrong with a bucket follows it.
std::string BucketTable(const quarry::admin::v1::ListBucketsResponse& list);
// An object with the gateway's url and region, and an array of buckets.
std::string BucketListJson(const quarry::admin::v1::ListBucketsResponse& list);

// Where the account finds its buckets, and its keys: KEY=VALUE lines as the environment of most S3 clients.
std::string GrantText(const quarry::admin::v1::GrantBucketResponse& granted);
std::string GrantJson(const quarry::admin::v1::GrantBucketResponse& granted);

std::string BucketJson(const quarry::admin::v1::Bucket& bucket);

// "photos (10 GiB raid1, 3 objects)".
std::string BucketSummary(const quarry::admin::v1::Bucket& bucket);

}  // namespace quarry::ctl
