// Puts buckets on an engine, and keeps them served.
#pragma once

#include <memory>
#include <thread>

#include "base/log.h"
#include "base/result.h"
#include "bucket/buckets.h"
#include "daemon/settings/options.h"
#include "engine/engine.h"

namespace quarry::daemon {

// kPrecondition: the gateway's user does not exist, or is root. The references outlive the result.
Result<std::unique_ptr<bucket::Buckets>> MakeBuckets(const Options& options, engine::Engine& engine,
                                                     const Logger& log, engine::StepWatcher* steps);

// A thread that looks at the buckets again and again. `buckets` outlives it.
std::jthread KeepBuckets(bucket::Buckets& buckets);

// A thread that counts what the gateway reports of its requests. `buckets` outlives it.
std::jthread CountRequests(bucket::Buckets& buckets);

}  // namespace quarry::daemon
