// Parses the text of settings. Pure. Every error is kInvalidArgument and states what is allowed. The caller
// adds which setting it was.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "csi/server.h"

namespace quarry::daemon {

// "must be <must>, is '<text>'".
Error Wrong(std::string_view must, std::string_view text);

// The value that `words` has for `text`. The error lists all words.
template <typename T>
Result<T> ParseWord(std::initializer_list<std::pair<std::string_view, T>> words, std::string_view text) {
  std::string all;
  for (const auto& [word, value] : words) {
    if (word == text) {
      return value;
    }
    all += fmt::format("{}{}", all.empty() ? "" : ", ", word);
  }
  return Wrong("one of " + all, text);
}

// Decimal digits only.
Result<uint64_t> ParseNumber(std::string_view text);
Result<bool> ParseBool(std::string_view text);  // true, false
Result<LogLevel> ParseLogLevel(std::string_view text);
Result<LogFormat> ParseLogFormat(std::string_view text);
Result<csi::Mode> ParseMode(std::string_view text);

// The path of the socket in CSI_ENDPOINT (csi-spec section 5): "unix:///dir/name.sock", short enough for
// sockaddr_un.
Result<AbsolutePath> ParseEndpoint(std::string_view text);

// Where metrics are served: a socket, or an address and port of this node.
struct MetricsAddress {
  std::string text;  // as configured, for messages
  std::optional<AbsolutePath> socket;
  std::string host;  // a literal address, without brackets
  int port = 0;
};
// "127.0.0.1:9808", "[::1]:9808", "unix:///dir/name.sock".
Result<MetricsAddress> ParseMetricsAddress(std::string_view text);

// A rule for disks, as written in the settings.
struct RuleDraft {
  std::string where;                                            // "device", "devices[2]", "exclude[1]"
  std::vector<std::pair<std::string, std::string>> conditions;  // "path" = "/dev/disk/by-id/x"
};
// Known conditions: path, model, serial, transport, min-size, max-size, rotational. The key wipe-ok is
// accepted too, but is no condition. Errors begin with `where` and the key.
Result<engine::DeviceRule> ParseRule(const RuleDraft& draft);

// A pool as written in the settings, not yet checked.
struct PoolDraft {
  std::string origin;  // "--pool", "/etc/quarry/quarry.toml: [[pool]] 2"
  std::string name;
  std::string group;
  std::vector<std::pair<std::string, std::string>> extras;  // "reserve" = "10G"
  std::vector<RuleDraft> devices, excludes;                 // in addition to those in `extras`
};
// "NAME=VG[,key=value…]".
Result<PoolDraft> ParsePoolText(std::string origin, std::string_view text);
// Checks every part. Errors begin with the draft's origin.
Result<engine::PoolConfig> ParsePool(const PoolDraft& draft);
// Refuses a name or a volume group that occurs twice: a pool is one group.
Status CheckPools(const std::vector<engine::PoolConfig>& pools);

}  // namespace quarry::daemon
