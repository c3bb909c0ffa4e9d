#include "nbd.h"

#include <endian.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vmtest {
namespace {

constexpr uint64_t kServerMagic = 0x4e42444d41474943;
constexpr uint64_t kOptionMagic = 0x49484156454f5054;
constexpr uint64_t kOptionReplyMagic = 0x0003e889045565a9;
constexpr uint32_t kRequestMagic = 0x25609513;
constexpr uint32_t kReplyMagic = 0x67446698;
constexpr uint16_t kFixedNewstyle = 1, kNoZeroes = 2;
constexpr uint32_t kOptAbort = 2, kOptGo = 7;
constexpr uint32_t kRepAck = 1, kRepInfo = 3, kRepUnsupported = 0x80000001;
constexpr uint16_t kInfoExport = 0, kInfoBlockSize = 3;
constexpr uint16_t kHasFlags = 1, kSendFlush = 4, kSendFua = 8, kSendTrim = 32, kSendZeroes = 64;
constexpr uint16_t kRead = 0, kWrite = 1, kDisconnect = 2, kFlush = 3, kTrim = 4, kZeroes = 6;
constexpr uint16_t kFua = 1;
constexpr uint32_t kSmallest = 512, kPreferred = 4096, kLargest = 32 << 20;

class Connection {
 public:
  Connection(int socket, Disk& disk) : socket_(socket), disk_(disk) {}

  void Serve() {
    if (!Greet()) {
      return;
    }
    std::jthread late([this](const std::stop_token& stop) { ServeLate(stop); });
    while (ServeRequest()) {
    }
  }

 private:
  bool Greet();
  bool AnswerOption(uint32_t option, bool* done);
  bool ServeRequest();
  bool Answer(uint64_t handle, int error, std::span<const char> payload);
  void ServeLate(const std::stop_token& stop);

  bool Receive(void* bytes, size_t length) {
    return length == 0 || recv(socket_, bytes, length, MSG_WAITALL) == static_cast<ssize_t>(length);
  }
  bool SendAll(const void* bytes, size_t length) {
    const char* at = static_cast<const char*>(bytes);
    while (length > 0) {
      const ssize_t sent = send(socket_, at, length, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) {
        continue;
      }
      if (sent <= 0) {
        return false;
      }
      at += sent;
      length -= static_cast<size_t>(sent);
    }
    return true;
  }

  // Zeroes that are written at the time `due`.
  struct Late {
    uint64_t handle, offset, length;
    bool fua;
    std::chrono::steady_clock::time_point due;
  };

  const int socket_;
  Disk& disk_;
  std::vector<char> buffer_;
  std::mutex sending_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Late> late_;  // in the order of their arrival
};

// Appends integers in the byte order of the protocol.
class Packer {
 public:
  Packer& U16(uint16_t v) { return Raw(htobe16(v)); }
  Packer& U32(uint32_t v) { return Raw(htobe32(v)); }
  Packer& U64(uint64_t v) { return Raw(htobe64(v)); }
  Packer& Bytes(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  Packer& Raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string bytes_;
};

std::string OptionReply(uint32_t option, uint32_t type, const std::string& payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  return Packer().U64(kOptionReplyMagic).U32(option).U32(type).U32(length).Bytes(payload).bytes();
}

struct [[gnu::packed]] Request {
  uint32_t magic;
  uint16_t flags;
  uint16_t type;
  uint64_t handle;
  uint64_t offset;
  uint32_t length;
};
static_assert(sizeof(Request) == 28);

bool Connection::Greet() {
  const std::string hello =
      Packer().U64(kServerMagic).U64(kOptionMagic).U16(kFixedNewstyle | kNoZeroes).bytes();
  uint32_t client_flags = 0;
  if (!SendAll(hello.data(), hello.size()) || !Receive(&client_flags, sizeof client_flags)) {
    return false;
  }
  struct [[gnu::packed]] {
    uint64_t magic;
    uint32_t option;
    uint32_t length;
  } head;
  bool done = false;
  while (!done) {
    if (!Receive(&head, sizeof head) || be64toh(head.magic) != kOptionMagic) {
      return false;
    }
    buffer_.resize(be32toh(head.length));
    if (buffer_.size() > kLargest || !Receive(buffer_.data(), buffer_.size())) {
      return false;
    }
    if (!AnswerOption(be32toh(head.option), &done)) {
      return false;
    }
  }
  return true;
}

bool Connection::AnswerOption(uint32_t option, bool* done) {
  std::string answer;
  if (option == kOptGo) {
    const uint16_t flags = kHasFlags | kSendFlush | kSendFua | kSendTrim | kSendZeroes;
    const std::string what = Packer().U16(kInfoExport).U64(disk_.size()).U16(flags).bytes();
    const std::string blocks =
        Packer().U16(kInfoBlockSize).U32(kSmallest).U32(kPreferred).U32(kLargest).bytes();
    answer = OptionReply(option, kRepInfo, what) + OptionReply(option, kRepInfo, blocks) +
             OptionReply(option, kRepAck, {});
    *done = true;
  } else if (option == kOptAbort) {
    return false;
  } else {
    answer = OptionReply(option, kRepUnsupported, {});
  }
  return SendAll(answer.data(), answer.size());
}

bool Connection::ServeRequest() {
  Request request;
  if (!Receive(&request, sizeof request) || be32toh(request.magic) != kRequestMagic) {
    return false;
  }
  const uint16_t type = be16toh(request.type);
  const uint64_t offset = be64toh(request.offset);
  const uint32_t length = be32toh(request.length);
  const bool fua = (be16toh(request.flags) & kFua) != 0;
  if (type == kDisconnect) {
    return false;
  }
  if (type == kRead || type == kWrite) {
    if (length > kLargest) {
      return false;
    }
    buffer_.resize(length);
  }
  if (type == kWrite && !Receive(buffer_.data(), length)) {
    return false;
  }
  int error = EINVAL;
  if (type == kRead) {
    error = disk_.Read(offset, buffer_);
  }
  if (type == kWrite) {
    error = disk_.Write(offset, buffer_, fua);
  }
  if (type == kFlush) {
    error = disk_.Flush();
  }
  if (const unsigned delay = disk_.zeroes_delay_ms(); type == kZeroes && delay > 0) {
    const std::lock_guard lock(mutex_);
    late_.push_back({request.handle, offset, length, fua,
                     std::chrono::steady_clock::now() + std::chrono::milliseconds(delay)});
    changed_.notify_all();
    return true;
  }
  if (type == kTrim || type == kZeroes) {
    error = disk_.Zero(offset, length, fua, type == kTrim);
  }
  const bool has_payload = type == kRead && error == 0;
  return Answer(request.handle, error,
                has_payload ? std::span<const char>(buffer_) : std::span<const char>());
}

bool Connection::Answer(uint64_t handle, int error, std::span<const char> payload) {
  struct [[gnu::packed]] {
    uint32_t magic;
    uint32_t error;
    uint64_t handle;
  } const reply{htobe32(kReplyMagic), htobe32(static_cast<uint32_t>(error)), handle};
  const std::lock_guard lock(sending_);
  return SendAll(&reply, sizeof reply) && SendAll(payload.data(), payload.size());
}

void Connection::ServeLate(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !late_.empty(); })) {
    const Late next = late_.front();
    changed_.wait_until(lock, stop, next.due, [] { return false; });
    if (stop.stop_requested()) {
      return;
    }
    late_.pop_front();
    lock.unlock();
    const int error = disk_.Zero(next.offset, next.length, next.fua, false);
    (void)Answer(next.handle, error, {});
    lock.lock();
  }
}

}  // namespace

void ServeNbd(int socket, Disk& disk) {
  Connection(socket, disk).Serve();
}

}  // namespace vmtest
