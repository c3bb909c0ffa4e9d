#include "daemon/settings/option_list.h"

#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace quarry::daemon {
namespace {

// "--config" → "CONFIG". CLI11's own word is that of the type, which is TEXT for nearly all.
std::string ValueWord(const CLI::Option& option) {
  if (option.get_expected_max() == 0 || option.get_items_expected_max() == 0) {
    return "";
  }
  std::string word = option.get_single_name();
  for (char& c : word) {
    c = c == '-' ? '-' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return word;
}

std::vector<std::string> Names(const CLI::Option& option) {
  if (option.get_positional()) {
    return {option.get_single_name()};
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

void Append(const std::string& command, const CLI::App& app, std::string& out) {
  for (const CLI::Option* option : app.get_options()) {
    out += fmt::format("{}\t{}\t{}\t{}\t{}\n", command, option->get_positional() ? "argument" : "option",
                       fmt::join(Names(*option), ","), ValueWord(*option), option->get_description());
  }
}

// `above`: the words before the commands of `app`, such as "volume ".
void AppendCommands(const std::string& above, const CLI::App& app, std::string& out) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    const std::string name = above + command->get_name();
    if (!command->get_subcommands(nullptr).empty()) {
      AppendCommands(name + " ", *command, out);
      continue;
    }
    out += fmt::format("{}\tcommand\t\t\t{}\n", name, command->get_description());
    Append(name, *command, out);
  }
}

}  // namespace

std::string OptionList(const CLI::App& app) {
  std::string out;
  Append("", app, out);
  AppendCommands("", app, out);
  return out;
}

}  // namespace quarry::daemon
