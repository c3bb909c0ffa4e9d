// Removes what looks like a secret from a text that leaves the node. Pure.
#pragma once

#include <string>
#include <string_view>

namespace quarry::ctl {

// Replaces by "<removed>": the value of each word "key=value" or "key: value" whose key contains password,
// passwd, passphrase, secret, token, credential, authorization, apikey or private-key, in any case; user and
// password of a URL; blocks of PEM; and the values of mkfsoptions, which Quarry never shows. The rest does
// not change.
std::string Redact(std::string_view text);

}  // namespace quarry::ctl
