/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Runs the module's test suites against an installed ns-3: --list, --suite=NAME, --verbose.

#include "slipring-ns3-compat.h"

#include "ns3/test.h"

#include <cstdlib>
#include <memory>

namespace
{

/// A test that fails
class FailingTest : public ns3::TestCase
{
  public:
    FailingTest()
        : TestCase("fails")
    {
    }

  private:
    void DoRun() override
    {
        NS_TEST_EXPECT_MSG_EQ(1, 2, "as it should");
    }
};

/// Shows that a failure ends the program with an error. Only there with SLIPRING_TEST_FAILURE.
class FailingTestSuite : public ns3::TestSuite
{
  public:
    FailingTestSuite()
        : TestSuite("slipring-failure", SLIPRING_SUITE_UNIT)
    {
        using ns3::TestCase;
        AddTestCase(new FailingTest, SLIPRING_TEST_QUICK);
    }
};

} // namespace

int
main(int argc, char* argv[])
{
    std::unique_ptr<FailingTestSuite> failing;
    if (std::getenv("SLIPRING_TEST_FAILURE"))
    {
        failing = std::make_unique<FailingTestSuite>();
    }
    return ns3::TestRunner::Run(argc, argv);
}
