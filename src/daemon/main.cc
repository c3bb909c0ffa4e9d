#include "daemon/daemon.h"

int main(int argc, char** argv) {
  return quarry::daemon::Main(argc, argv, QUARRY_VERSION);
}
