// The web console: the files of ui/dist, which the program carries, under /.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "serve/router.h"

namespace tandem {

struct EmbeddedFile {
  std::string_view name;  // relative to ui/dist
  std::string_view bytes;
};

// Written by cmake/EmbedFiles.cmake. Static data.
std::span<const EmbeddedFile> embedded_console_files();

// GET / (index.html) and one route for each other file. Browsers ask each time and are answered 304
// while they hold what this program carries. Under the policy sent along, a page runs no script
// but these files and reaches no other host.
std::vector<Route> console_routes();

}  // namespace tandem
