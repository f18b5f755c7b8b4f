# Writes a C++ source that holds the bytes of files, so that the program needs none of them at run time.
#
#   cmake -DOUTPUT=out.cc -DFOLDER=dir -DFILES=a,b,c -P EmbedFiles.cmake
#
# Defines tandem::embedded_console_files(), declared in src/serve/console.h.
string(REPLACE "," ";" files "${FILES}")
set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS files)
  file(READ "${FOLDER}/${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # A source line of a megabyte stops editors and some tools.
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kBytes${index}[] = {\n${bytes}};\n")
  string(APPEND entries
    "    {\"${file}\", {reinterpret_cast<const char*>(kBytes${index}), sizeof kBytes${index}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Made by EmbedFiles.cmake.
#include \"serve/console.h\"

namespace tandem {
namespace {

${arrays}
}  // namespace

std::span<const EmbeddedFile> embedded_console_files() {
  static const EmbeddedFile kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace tandem
")
