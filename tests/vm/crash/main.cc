// quarryd that can be killed at a step. QUARRY_CRASH_ORDER names the order file (crash_at_step.h).
#include <cstdlib>

#include "daemon/daemon.h"
#include "tests/vm/crash/crash_at_step.h"

int main(int argc, char** argv) {
  const char* order = std::getenv("QUARRY_CRASH_ORDER");
  quarry::vm::CrashAtStep crash(order == nullptr ? "/run/quarry-test/crash-order" : order);
  return quarry::daemon::Main(argc, argv, "crash-test", &crash);
}
