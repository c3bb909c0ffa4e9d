// The frames between the harness on the host (channel.py has the same numbers)
// and the agent in the guest, over one virtio-serial port. All integers are
// little-endian, as are both machines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vmtest {

enum class Frame : uint8_t {
  // Host to guest.
  kStart = 1, // NUL-ended strings: "pipe" or "pty", directory, argument count,
              // arguments, environment
  kInput = 2, // bytes for the command's standard input
  kInputEnd = 3, // end of the input
  kSignal = 4,   // one byte: signal for the command's process group
  kCredit = 5,   // uint32: so many bytes of output have been consumed
  kResize = 6,   // two uint16: rows and columns of the pty
  kReply = 7, // to kRequest, on its channel: one byte of exit status, then text
  kPowerOff = 8, // end all processes, write everything back, switch off
  // Guest to host.
  kReady = 65,       // the agent listens
  kOutput = 66,      // bytes of standard output
  kError = 67,       // bytes of standard error
  kExit = 68,        // uint32: exit status, or 128 + signal
  kInputCredit = 69, // uint32: so many bytes of input have been handed over
  kRequest = 70,     // NUL-ended strings: the arguments of a vmctl in the guest
};

// Precedes each payload. A channel is one running command; the host chooses its number. Requests have their
// own numbers, which the guest chooses.
struct FrameHeader {
  uint32_t length;
  uint32_t channel;
  Frame type;
  uint8_t zero[3];
};
static_assert(sizeof(FrameHeader) == 12);

// Bytes that may be under way in one direction of one channel without credit.
constexpr uint32_t kWindow = 256 * 1024;
constexpr uint32_t kMaxPayload = 64 * 1024;

// Where the agent listens for vmctl: one SOCK_SEQPACKET connection a request.
constexpr char kRequestSocket[] = "/run/vmtest.sock";
constexpr char kPortName[] = "quarry.agent";

} // namespace vmtest
