#include "loadgen/sse_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace tandem::loadgen {
namespace {

using Events = std::vector<std::string>;

Events read(const std::vector<std::string>& pieces) {
  SseReader reader;
  Events events;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(reader.feed(piece, [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseReader, yields_the_data_of_complete_events) {
  EXPECT_EQ(read({"data: {\"a\":1}\n\ndata:[DONE]\n\ndata: half"}),
            (Events{"{\"a\":1}", "[DONE]"}));
}

TEST(SseReader, joins_lines_of_one_event_and_drops_the_rest) {
  EXPECT_EQ(read({": ping\n\nevent: x\nid: 3\ndata: a\ndata:  b\n\nevent: y\n\ndata\n\n"}),
            (Events{"a\n b"}));
}

TEST(SseReader, takes_every_line_end) {
  for (const char* end : {"\n", "\r", "\r\n"}) {
    const std::string line_end = end;
    EXPECT_EQ(read({"data: a" + line_end + line_end + "data: b" + line_end + line_end}),
              (Events{"a", "b"}));
  }
}

TEST(SseReader, an_event_without_end_is_refused) {
  SseReader reader;
  const std::string part(SseReader::kMaxEventBytes / 2 + 1, 'x');
  EXPECT_TRUE(reader.feed(part, [](std::string_view) { FAIL(); }));
  EXPECT_FALSE(reader.feed(part, [](std::string_view) { FAIL(); }));
}

TEST(SseReader, does_not_care_where_the_stream_is_cut) {
  const std::string stream =
      "data: one\r\n\r\n: ping\r\n\r\ndata: two\rdata: more\r\rdata: \xc3\xa4\n\nid: "
      "1\n\ndata:\n\n";
  const Events whole = read({stream});
  ASSERT_EQ(whole, (Events{"one", "two\nmore", "\xc3\xa4", ""}));
  for (std::size_t at = 0; at <= stream.size(); ++at) {
    EXPECT_EQ(read({stream.substr(0, at), stream.substr(at)}), whole) << at;
  }
  rc::check([&] {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < stream.size();) {
      const auto length = *rc::gen::inRange<std::size_t>(1, 6);
      pieces.push_back(stream.substr(at, length));
      at += length;
    }
    RC_ASSERT(read(pieces) == whole);
  });
}

}  // namespace
}  // namespace tandem::loadgen
