// What a tenant has been given, for weighted fair queueing.
#pragma once

namespace tandem {

// The account of one tenant in one priority class. Time is measured service in milliseconds,
// divided by the tenant's weight; the tenant with the earliest turn is served next. As only
// differences between tenants count, an account that starts at the least of those who wait carries
// no credit and no debt. A value.
class FairShare {
 public:
  FairShare(double weight, double start) : weight_(weight), served_(start) {}

  double served() const { return served_; }
  double turn() const { return served_ + expected_ms_ / weight_; }

  // A request estimated at `ms` begins. Until service is measured the estimate stands in for it, so
  // that requests which begin in one step take turns, too.
  void expect(double ms) { expected_ms_ += ms; }
  // Service was measured; it replaces what was expected, whose errors thus do not add up.
  void charge(double ms) {
    served_ += ms / weight_;
    expected_ms_ = 0;
  }

  // The tenant waits again after it did not. Time in which it asked for nothing is not saved up.
  void come_back(double least_served) {
    if (served_ < least_served) served_ = least_served;
  }
  void set_weight(double weight) { weight_ = weight; }

 private:
  double weight_;
  double served_;
  double expected_ms_ = 0;
};

}  // namespace tandem
