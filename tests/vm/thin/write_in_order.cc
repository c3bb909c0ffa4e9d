// write_in_order DEVICE…: writes 1 to the first block of each device in turn, then 2, and so on, each write
// after the one before has completed. So at every instant the numbers never rise from one device to the next,
// and the first is at most one above the last. Ends on SIGTERM, and prints the rounds and the longest write
// in microseconds.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kBlock = 4096;
volatile sig_atomic_t ended = 0;

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action{};
  action.sa_handler = [](int) { ended = 1; };
  sigaction(SIGTERM, &action, nullptr);
  std::vector<int> devices;
  for (int i = 1; i < argc; ++i) {
    devices.push_back(open(argv[i], O_WRONLY | O_DIRECT | O_CLOEXEC));
    if (devices.back() < 0) {
      perror(argv[i]);
      return 1;
    }
  }
  auto* block = static_cast<char*>(aligned_alloc(kBlock, kBlock));
  memset(block, 0, kBlock);
  uint64_t round = 0;
  std::chrono::microseconds longest{};
  while (ended == 0) {
    ++round;
    memcpy(block, &round, sizeof round);
    for (const int device : devices) {
      const auto begin = std::chrono::steady_clock::now();
      if (pwrite(device, block, kBlock, 0) != static_cast<ssize_t>(kBlock)) {
        perror("pwrite");
        return 1;
      }
      longest = std::max(longest, std::chrono::duration_cast<std::chrono::microseconds>(
                                      std::chrono::steady_clock::now() - begin));
    }
  }
  printf("rounds=%llu longest=%lld\n", static_cast<unsigned long long>(round),
         static_cast<long long>(longest.count()));
  return 0;
}
