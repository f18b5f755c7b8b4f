#include "memory/radix_tree.h"

#include <gtest/gtest.h>

#include "memory/prefix_testing.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kPage = 4;

class RadixTreeTest : public ::testing::Test {
 protected:
  ~RadixTreeTest() override {
    const Result<void> sound = tree_.integrity_check();
    EXPECT_TRUE(sound.has_value()) << sound.error().message;
  }
  RadixNode& root() { return tree_.root(at_.name); }
  RadixNode& add(RadixNode& parent, const std::vector<TokenId>& tokens) {
    std::vector<PageHandle> pages = at_.new_pages(static_cast<std::int64_t>(tokens.size()) / kPage);
    return tree_.append(parent, tokens, pages);
  }
  RadixWalk walk(const std::vector<TokenId>& tokens, std::int64_t limit = 1 << 20) {
    return tree_.walk(root(), tokens, limit);
  }

  CacheFixture at_{{.page_tokens = kPage, .grid_tokens = kPage}};
  RadixTree tree_{kPage};
};

TEST_F(RadixTreeTest, a_walk_ends_at_the_prompt_the_cache_or_a_difference) {
  RadixNode& leaf = add(root(), ascending(0, 12));
  EXPECT_EQ(walk(ascending(0, 10)).end, MatchEnd::kPromptEnds);
  EXPECT_EQ(walk(ascending(0, 12)).end, MatchEnd::kPromptEnds);
  EXPECT_EQ(walk(ascending(0, 20), 12).end, MatchEnd::kPromptEnds);
  EXPECT_EQ(walk(ascending(0, 13)).end, MatchEnd::kCacheEnds);
  EXPECT_EQ(walk(ascending(0, 7) + ascending(99, 3)).end, MatchEnd::kTextDiffers);
  EXPECT_EQ(walk(ascending(50, 3)).end, MatchEnd::kTextDiffers);
  EXPECT_EQ(walk(ascending(0, 13)).node, &leaf);
  EXPECT_EQ(walk(ascending(0, 3)).node, &root());
}

TEST_F(RadixTreeTest, rows_are_shared_in_whole_pages_and_text_token_by_token) {
  (void)add(root(), ascending(0, 1200));
  for (const int common : {0, 3, 4, 511, 512, 513, 1023, 1199}) {
    const RadixWalk at = walk(ascending(0, common) + ascending(5000, 700));
    EXPECT_EQ(at.text_tokens, common);
    EXPECT_EQ(at.row_tokens, common - common % kPage);
  }
}

TEST_F(RadixTreeTest, children_are_found_by_their_first_page) {
  RadixNode& top = add(root(), ascending(0, 4));
  std::vector<RadixNode*> leaves;
  for (const TokenId token : {30, 10, 40, 20}) {
    leaves.push_back(&add(top, std::vector<TokenId>{1, 2, token, 3, 9, 9, 9, 9}));
  }
  std::size_t at = 0;
  for (const TokenId token : {30, 10, 40, 20}) {
    EXPECT_EQ(walk(ascending(0, 4) + std::vector<TokenId>{1, 2, token, 3, 9}).node, leaves[at++]);
  }
}

TEST_F(RadixTreeTest, cutting_keeps_node_state_and_locks_below) {
  RadixNode& node = add(root(), ascending(0, 12));
  node.state = at_.arena->allocate_work(RequestId{1});
  node.row_locks = 2;
  const PageId second = node.pages[1].id();
  RadixNode& upper = tree_.split(node, 4);
  EXPECT_EQ(upper.tokens, ascending(0, 4));
  EXPECT_EQ(node.tokens, ascending(4, 8));
  EXPECT_EQ(node.pages.front().id(), second);
  EXPECT_FALSE(upper.state);
  EXPECT_TRUE(node.state);
  EXPECT_EQ(upper.row_locks, 2);
  EXPECT_EQ(node.parent, &upper);
  EXPECT_EQ(walk(ascending(0, 12)).node, &node);
}

// The other part is copied then.
TEST_F(RadixTreeTest, cutting_near_the_end_shares_out_tokens_and_pages_alike) {
  RadixNode& node = add(root(), ascending(0, 12));
  std::vector<PageId> pages;
  for (const PageHandle& page : node.pages) pages.push_back(page.id());
  RadixNode& upper = tree_.split(node, 8);
  EXPECT_EQ(upper.tokens, ascending(0, 8));
  EXPECT_EQ(node.tokens, ascending(8, 4));
  ASSERT_EQ(upper.pages.size(), 2u);
  ASSERT_EQ(node.pages.size(), 1u);
  EXPECT_EQ(upper.pages[0].id(), pages[0]);
  EXPECT_EQ(upper.pages[1].id(), pages[1]);
  EXPECT_EQ(node.pages[0].id(), pages[2]);
}

TEST_F(RadixTreeTest, joining_undoes_cutting) {
  RadixNode& node = add(root(), ascending(0, 12));
  (void)add(root(), ascending(100, 4));
  const PageId first = node.pages[0].id();
  EXPECT_EQ(&tree_.join(tree_.split(node, 8)), &node);
  EXPECT_EQ(node.tokens, ascending(0, 12));
  EXPECT_EQ(node.pages.front().id(), first);
  EXPECT_EQ(node.parent, &root());
  EXPECT_EQ(tree_.nodes().size(), 3u);
}

TEST_F(RadixTreeTest, a_removed_leaf_gives_its_pages_back_and_a_removed_root_its_name) {
  RadixNode& leaf = add(root(), ascending(0, 12));
  tree_.remove(leaf);
  EXPECT_EQ(at_.arena->usage().taken.pages, 0);
  tree_.remove(root());
  EXPECT_EQ(tree_.namespaces(), 0u);
  EXPECT_EQ(tree_.find_root(at_.name), nullptr);
}

TEST_F(RadixTreeTest, pages_of_one_token_work) {
  RadixTree tree(1);
  std::vector<PageHandle> pages = at_.new_pages(3);
  RadixNode& leaf = tree.append(tree.root(at_.name), ascending(0, 3), pages);
  const RadixWalk at = tree.walk(tree.root(at_.name), std::vector<TokenId>{0, 1, 7}, 3);
  EXPECT_EQ(at.row_tokens, 2);
  EXPECT_EQ(at.node, &leaf);
}

}  // namespace
}  // namespace tandem::testing
