// Pages of lists. A token is the last id on the page, so it stays valid while items come and go.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/names.h"

namespace quarry::engine {

inline constexpr std::string_view kTokenPrefix = "after:";

// kStaleToken if no list of this kind issued the token. `rpc` names the call. Empty: the first page.
inline Status CheckToken(const std::string& token, std::string_view rpc) {
  if (token.empty() ||
      (token.starts_with(kTokenPrefix) &&
       lvm::ParseVolumeId(std::string_view(token).substr(kTokenPrefix.size())).has_value())) {
    return Ok();
  }
  return Error(Code::kStaleToken,
               std::string("starting_token: is not a token that ") + std::string(rpc) + " returned");
}

// Reduces `all`, in no particular order, to the page that begins after a token that CheckToken accepts. 0: no
// limit. Returns the token of the next page; empty if this is the last one.
template <typename Item>
std::string TakePage(std::vector<Item>& all, const std::string& token, uint32_t max_entries) {
  std::ranges::sort(all, {}, &Item::id);
  const std::string after = token.empty() ? "" : token.substr(kTokenPrefix.size());
  all.erase(all.begin(), std::ranges::upper_bound(all, after, {}, &Item::id));
  if (max_entries == 0 || all.size() <= max_entries) {
    return "";
  }
  all.erase(all.begin() + max_entries, all.end());
  return std::string(kTokenPrefix) + all.back().id;
}

}  // namespace quarry::engine
