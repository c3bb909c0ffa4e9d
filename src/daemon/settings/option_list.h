// The command line of a program as a table, for what is made from it: manual pages and shell completion.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class App;
}  // namespace CLI

namespace quarry::daemon {

// The hidden option that prints the table. It stands alone on the command line.
inline constexpr const char* kListOptions = "--list-options";

// One line for each command and for each option and argument, in the order of the help text. The fields are
// separated by tabs: command, which may have two words (empty: the program itself), kind, names separated by commas, the word for the
// value (empty: none), description. Kinds: "command" (its names field is empty), "option", "argument".
std::string OptionList(const CLI::App& app);

}  // namespace quarry::daemon
