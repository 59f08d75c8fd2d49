/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Runs the module's test suites against an installed ns-3: --list, --suite=NAME, --verbose.

#include "slipring-ns3-compat.h"

#include "ns3/global-value.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"

#include <cstdlib>
#include <memory>
#include <thread>

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

/// An event of the real-time simulator and a thread change a number, and nothing orders them
class RacingTest : public ns3::TestCase
{
  public:
    RacingTest()
        : TestCase("races")
    {
    }

  private:
    void Count()
    {
        m_count++;
    }

    void DoRun() override
    {
        ns3::GlobalValue::Bind("SimulatorImplementationType",
                               ns3::StringValue("ns3::RealtimeSimulatorImpl"));
        std::thread thread(&RacingTest::Count, this);
        ns3::Simulator::Schedule(ns3::Seconds(0), &RacingTest::Count, this);
        ns3::Simulator::Stop(ns3::Seconds(0));
        ns3::Simulator::Run();
        thread.join();
        ns3::Simulator::Destroy();
    }

    int m_count{0}; //!< the number
};

/// A suite whose test has a fault that must be reported. It is registered only if an environment
/// variable is set.
class FaultSuite : public ns3::TestSuite
{
  public:
    /**
     * \param name name of the suite
     * \param test the test with the fault, which the suite deletes
     */
    FaultSuite(std::string name, ns3::TestCase* test)
        : TestSuite(name, SLIPRING_SUITE_UNIT)
    {
        using ns3::TestCase;
        AddTestCase(test, SLIPRING_TEST_QUICK);
    }
};

} // namespace

int
main(int argc, char* argv[])
{
    std::unique_ptr<FaultSuite> failing;
    if (std::getenv("SLIPRING_TEST_FAILURE"))
    {
        failing = std::make_unique<FaultSuite>("slipring-failure", new FailingTest);
    }
    std::unique_ptr<FaultSuite> racing;
    if (std::getenv("SLIPRING_TEST_RACE"))
    {
        racing = std::make_unique<FaultSuite>("slipring-race", new RacingTest);
    }
    return ns3::TestRunner::Run(argc, argv);
}
