#include "ctl/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace quarry::ctl {
namespace {

constexpr std::string_view kRemoved = "<removed>";
constexpr std::array<std::string_view, 12> kSecretWords = {
    "password", "passwd",        "passphrase", "secret",  "token",       "credential",
    "apikey",   "authorization", "api_key",    "api-key", "private-key", "private_key"};
// In a tag of LVM the value is escaped, so it has no blanks: "…mkfsoptions+3D-m+200…".
constexpr std::string_view kMkfs = "mkfsoptions";

bool IsKeyChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

bool IsSecretKey(std::string_view key) {
  std::string lower(key);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(kSecretWords,
                             [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool Blank(char c) {
  return c == ' ' || c == '\t';
}

// The end of the value that begins at `at`: of a quoted string, or of a word. After "key: " the value is the
// rest of the line, as in a header ("Authorization: Bearer x").
size_t ValueEnd(std::string_view line, size_t at, bool rest_of_line) {
  if (at < line.size() && (line[at] == '"' || line[at] == '\'')) {
    const char quote = line[at];
    for (size_t i = at + 1; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == quote) {
        return i + 1;
      }
    }
    return line.size();
  }
  const size_t end = rest_of_line ? std::string_view::npos : line.find_first_of(" \t,;&", at);
  return std::min(end, line.size());
}

// Removes the values of secret keys from one line.
std::string WithoutValues(std::string_view line) {
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '=' && line[i] != ':') {
      continue;
    }
    size_t key_end = i;
    while (key_end > done &&
           (Blank(line[key_end - 1]) || line[key_end - 1] == '"' || line[key_end - 1] == '\'')) {
      --key_end;
    }
    size_t key = key_end;
    while (key > done && IsKeyChar(line[key - 1])) {
      --key;
    }
    if (!IsSecretKey(line.substr(key, key_end - key))) {
      continue;
    }
    size_t value = i + 1;
    while (value < line.size() && Blank(line[value])) {
      ++value;
    }
    const size_t end = ValueEnd(line, value, line[i] == ':');
    if (end > value) {
      out.append(line.substr(done, value - done)).append(kRemoved);
      done = end;
      i = end - 1;
    }
  }
  return out.append(line.substr(done));
}

// "mkfsoptions=-m 0" of a profile, and the same in an escaped tag. The value ends where the text that
// contains it does.
std::string WithoutMkfsOptions(std::string line) {
  for (size_t at = line.find(kMkfs); at != std::string::npos; at = line.find(kMkfs, at + kMkfs.size())) {
    const size_t value = at + kMkfs.size();
    const bool escaped = line.compare(value, 3, "+3D") == 0;
    if (value >= line.size() || (line[value] != '=' && !escaped)) {
      continue;
    }
    const size_t begin = value + (escaped ? 3 : 1);
    const size_t end = std::min(line.find_first_of(escaped ? "\", \t" : "\",", begin), line.size());
    line.replace(begin, end - begin, kRemoved);
  }
  return line;
}

// The keys of dm-integrity in a table of device-mapper: "internal_hash:hmac(sha256):KEY".
std::string WithoutIntegrityKeys(std::string line) {
  for (const std::string_view option : {"internal_hash:", "journal_crypt:", "journal_mac:"}) {
    for (size_t at = line.find(option); at != std::string::npos; at = line.find(option, at + option.size())) {
      const size_t end = std::min(line.find_first_of(" \t\"'", at), line.size());
      const size_t colon = line.find(':', at + option.size());
      if (colon < end && colon + 1 < end) {
        line.replace(colon + 1, end - colon - 1, kRemoved);
      }
    }
  }
  return line;
}

// The user and password of a root on iSCSI, in the kernel's command line: "netroot=iscsi:user:password@host".
std::string WithoutIscsiUser(std::string line) {
  constexpr std::string_view kIscsi = "iscsi:";
  for (size_t at = line.find(kIscsi); at != std::string::npos; at = line.find(kIscsi, at + kIscsi.size())) {
    const size_t begin = at + kIscsi.size();
    const size_t end = std::min(line.find_first_of(" \t\"'", begin), line.size());
    const size_t host = line.find('@', begin);
    if (host < end) {
      line.replace(begin, host - begin, kRemoved);
    }
  }
  return line;
}

// "scheme://user:password@host".
std::string WithoutUserInfo(std::string line) {
  for (size_t at = line.find("://"); at != std::string::npos; at = line.find("://", at + 3)) {
    const size_t end = std::min(line.find_first_of(" \t\"'<>/?#", at + 3), line.size());
    const size_t host = line.rfind('@', end);
    if (host != std::string::npos && host >= at + 3 && host < end) {
      line.replace(at + 3, host - at - 3, kRemoved);
    }
  }
  return line;
}

}  // namespace

std::string Redact(std::string_view text) {
  std::string out;
  bool in_pem = false;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const bool begins = line.find("-----BEGIN ") != std::string_view::npos;
    const bool ends = line.find("-----END ") != std::string_view::npos;
    if (in_pem || begins) {
      out += begins && !in_pem ? std::string(kRemoved) + "\n" : "";
      in_pem = !ends;
      continue;
    }
    out += WithoutIscsiUser(WithoutIntegrityKeys(WithoutUserInfo(WithoutMkfsOptions(WithoutValues(line)))));
    out += newline == std::string_view::npos ? "" : "\n";
  }
  return out;
}

}  // namespace quarry::ctl
