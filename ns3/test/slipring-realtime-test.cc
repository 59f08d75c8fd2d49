/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests under the real-time simulator: pipes between two devices, served by poll threads.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/boolean.h"
#include "ns3/global-value.h"
#include "ns3/realtime-simulator-impl.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// A test that selects the real-time simulator, and the default one afterwards
class RealtimeTest : public TestCase
{
  public:
    /**
     * \param name name of the test
     */
    explicit RealtimeTest(std::string name)
        : TestCase(name)
    {
    }

  protected:
    /// The body of the test, which runs under the real-time simulator.
    virtual void Realtime() = 0;

    /// Records the calling thread.
    void NoteThread()
    {
        m_threads.insert(std::this_thread::get_id());
    }

    std::set<std::thread::id> m_threads; //!< threads that have called NoteThread

  private:
    void DoRun() override
    {
        SlipringNetDeviceHelper::EnableRealtime();
        Realtime();
        Simulator::Destroy();
        GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
        GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
        m_threads.erase(std::this_thread::get_id());
        NS_TEST_EXPECT_MSG_EQ(m_threads.size(), 0, "other threads that ran callbacks");
    }
};

/// All callbacks run in the simulator thread; all frames arrive
class ThreadsTest : public RealtimeTest
{
  public:
    ThreadsTest()
        : RealtimeTest("D2D13CallbacksAndSyncsOfOtherThreads")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 2000; //!< frames to send
    uint32_t m_received{0};                  //!< frames received
    uint32_t m_sent{0};                      //!< frames sent
    Ptr<NetDevice> m_sender;                 //!< the sending device

    void Traced(uint32_t, uint32_t)
    {
        NoteThread();
    }

    bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&)
    {
        NoteThread();
        if (++m_received == FRAMES)
        {
            Simulator::Stop();
        }
        return true;
    }

    void Send()
    {
        // Fewer frames are on their way than the ring holds.
        for (uint32_t i = 0; i < 100 && m_sent < FRAMES && m_sent < m_received + 500; i++)
        {
            NS_TEST_EXPECT_MSG_EQ(SendPayload(m_sender, MakeFrame(60, m_sent)), true, m_sent);
            m_sent++;
        }
        if (m_sent < FRAMES)
        {
            Simulator::Schedule(MicroSeconds(100), &ThreadsTest::Send, this);
        }
    }

    void Realtime() override
    {
        NetDeviceContainer ends = SlipringNetDeviceHelper().InstallPipe(CreateObject<Node>(),
                                                                        CreateObject<Node>(),
                                                                        PipeName());
        m_sender = ends.Get(0);
        ends.Get(1)->SetReceiveCallback(MakeCallback(&ThreadsTest::Receive, this));
        ends.Get(0)->TraceConnectWithoutContext("TxSync", MakeCallback(&ThreadsTest::Traced, this));
        ends.Get(1)->TraceConnectWithoutContext("RxBurst", MakeCallback(&ThreadsTest::Traced, this));
        Simulator::Schedule(MilliSeconds(1), &ThreadsTest::Send, this);
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_received, FRAMES, "frames received");
        m_sender = nullptr;
    }
};

/// 10000 frames of all lengths cross a pipe in each direction, unchanged and in order
class PipeTest : public RealtimeTest
{
  public:
    PipeTest()
        : RealtimeTest("APipeCarriesFramesOfAllLengthsInBothDirections")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 10000; //!< frames in each direction
    static constexpr uint32_t LENGTHS = 1455; //!< lengths from 60 to 1514

    /// What one device sends, and the other has received
    struct Direction
    {
        Ptr<NetDevice> sender; //!< the sending device
        uint32_t seed;         //!< what the bytes depend on
        uint32_t sent{0};      //!< frames sent
        uint32_t received{0};  //!< frames received
        uint32_t wrong{0};     //!< frames that differ from what was sent

        Frame Make(uint32_t number) const
        {
            return MakeFrame(60 + number % LENGTHS, number + seed);
        }

        bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
        {
            Frame frame = Make(received++);
            Frame payload(packet->GetSize());
            packet->CopyData(payload.data(), packet->GetSize());
            wrong += payload == Frame(frame.begin() + 14, frame.end()) ? 0 : 1;
            return true;
        }
    };

    std::vector<Direction> m_directions; //!< both directions

    /// Sends what the rings have room for, until all has arrived.
    void Feed()
    {
        uint32_t received = 0;
        for (Direction& way : m_directions)
        {
            for (uint32_t i = 0; i < 100 && way.sent < FRAMES && way.sent < way.received + 500; i++)
            {
                NS_TEST_EXPECT_MSG_EQ(SendPayload(way.sender, way.Make(way.sent)), true, way.sent);
                way.sent++;
            }
            received += way.received;
        }
        received < 2 * FRAMES ? (void)Simulator::Schedule(MicroSeconds(100), &PipeTest::Feed, this)
                              : Simulator::Stop();
    }

    void Realtime() override
    {
        NetDeviceContainer ends = SlipringNetDeviceHelper().InstallPipe(CreateObject<Node>(),
                                                                        CreateObject<Node>(),
                                                                        PipeName());
        m_directions = {{ends.Get(0), 0}, {ends.Get(1), 77}};
        ends.Get(1)->SetReceiveCallback(MakeCallback(&Direction::Receive, &m_directions[0]));
        ends.Get(0)->SetReceiveCallback(MakeCallback(&Direction::Receive, &m_directions[1]));
        Simulator::Schedule(MilliSeconds(1), &PipeTest::Feed, this);
        Simulator::Stop(Seconds(120));
        Simulator::Run();
        for (const Direction& way : m_directions)
        {
            NS_TEST_EXPECT_MSG_EQ(way.received, FRAMES, "frames received");
            NS_TEST_EXPECT_MSG_EQ(way.wrong, 0, "frames that differ");
        }
        m_directions.clear();
    }
};

/// An idle device has no events and no syncs
class IdleTest : public RealtimeTest
{
  public:
    IdleTest()
        : RealtimeTest("D12IdleDeviceNeverSleeps")
    {
    }

  private:
    uint32_t m_services{0}; //!< how often the device was served

    void Served(Time)
    {
        m_services++;
    }

    void Realtime() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        device->TraceConnectWithoutContext("RealtimeLag", MakeCallback(&IdleTest::Served, this));
        Simulator::Stop(MilliSeconds(300));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_LT_OR_EQ(m_services, 2, "the start, and no event afterwards");
        NS_TEST_EXPECT_MSG_EQ(device->GetStats().txSyncs, 0, "tx syncs");
    }
};

/// Spurious wake-ups of the poll thread do not end reception
class SpuriousTest : public RealtimeTest
{
  public:
    SpuriousTest()
        : RealtimeTest("D4SpuriousWakeupEndsReception of the poll thread")
    {
    }

  private:
    uint32_t m_received{0}; //!< frames received

    bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&)
    {
        NoteThread();
        m_received++;
        Simulator::Stop();
        return true;
    }

    void Realtime() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        device->SetReceiveCallback(MakeCallback(&SpuriousTest::Receive, this));
        Simulator::Schedule(MilliSeconds(1), [&]() {
            for (uint32_t i = 0; i < 1000; i++)
            {
                SlipringNetDeviceTestAccess::DisturbPoller(device);
                SlipringNetDeviceTestAccess::PostSpuriousWake(device);
            }
        });
        // The peer's sync wakes the poll thread, and nothing else does.
        Simulator::Schedule(MilliSeconds(2), [&]() { peer.Send(MakeFrame(60, 1)); });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_received, 1, "frames");
    }
};

/// Frames from before a restart fill the ring; the poll thread waits until the peer has read them
class RestartTest : public RealtimeTest
{
  public:
    RestartTest()
        : RealtimeTest("RestartOverAFullRingWaitsForThePeer")
    {
    }

  private:
    static constexpr uint32_t SLOTS = 64; //!< slots of the ring
    static constexpr uint32_t AFTER = 10; //!< packets after the restart

    void Realtime() override
    {
        Bottleneck link(SLOTS);
        uint32_t received = 0;
        std::function<void()> look = [&]() {
            received += link.peer.ReceiveAll();
            received < SLOTS - 1 + AFTER ? (void)Simulator::Schedule(MilliSeconds(1), look)
                                         : Simulator::Stop();
        };
        link.device->SetAttribute("StopDrainTime", TimeValue(Time(0)));
        // The stall timer would serve the device too.
        link.device->SetAttribute("TxStallTimeout", TimeValue(Time(0)));
        Simulator::Schedule(MilliSeconds(1), [&]() {
            link.Send(SLOTS - 1, 100);
            link.device->Stop(Time(0));
            // The stop would cancel a start that is already scheduled, so the start is scheduled
            // later.
            Simulator::Schedule(MilliSeconds(1), [&]() { link.device->Start(Time(0)); });
            Simulator::Schedule(MilliSeconds(5), [&]() { link.Send(AFTER, 100); });
            // Only the peer's reading tells the device that its ring has room.
            Simulator::Schedule(MilliSeconds(10), look);
        });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(received, SLOTS - 1 + AFTER, "frames of before and after the restart");
        NS_TEST_EXPECT_MSG_EQ(link.discs.Get(0)->GetStats().nTotalDroppedPackets, 0, "drops");
    }
};

/// Tests of when frames leave, with a simulator that is behind the clock or not
class FlushTest : public RealtimeTest
{
  public:
    /**
     * \param name name of the test
     */
    explicit FlushTest(std::string name)
        : RealtimeTest(name)
    {
    }

  protected:
    /// A tx sync with frames
    struct Sync
    {
        Time time;       //!< when, in simulated time
        uint32_t frames; //!< number of frames

        bool operator==(const Sync& other) const
        {
            return time == other.time && frames == other.frames;
        }
    };

    std::vector<Sync> m_syncs; //!< the tx syncs with frames

    /// Records the tx syncs of a device.
    void Watch(Ptr<SlipringNetDevice> device)
    {
        device->TraceConnectWithoutContext("TxSync", MakeCallback(&FlushTest::Note, this));
    }

    /// At 1 ms, keeps the simulator busy until the clock is at 4 ms. Events that are scheduled for
    /// the time between are then overdue.
    static void BeLate()
    {
        Simulator::Schedule(MilliSeconds(1), []() {
            auto simulator = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
            while (simulator->RealtimeNow() < MilliSeconds(4))
            {
            }
        });
    }

  private:
    void Note(uint32_t, uint32_t frames)
    {
        m_syncs.push_back({Simulator::Now(), frames});
    }
};

/// Overdue frames of different instants leave together, TxBurst at a time
class LateTest : public FlushTest
{
  public:
    LateTest()
        : FlushTest("ALateSimulatorSendsFramesOfSeveralInstantsTogether")
    {
    }

  private:
    void Realtime() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        Watch(device);
        BeLate();
        for (uint32_t i = 1; i <= 40; i++)
        {
            Simulator::Schedule(MilliSeconds(1) + MicroSeconds(i),
                                [device, i]() { SendPayload(device, MakeFrame(60, i)); });
        }
        Simulator::Stop(MilliSeconds(3));
        Simulator::Run();
        // One sync sends TxBurst (32) frames, and one the other 8, 200 us after the first of them.
        // If the poll thread starts late, each of its wake-ups also sends the frames that wait.
        NS_TEST_EXPECT_MSG_LT(m_syncs.size(), 10, "syncs");
        for (const Sync& sync : m_syncs)
        {
            NS_TEST_EXPECT_MSG_LT_OR_EQ(sync.frames, 32, "frames of a sync");
            NS_TEST_EXPECT_MSG_LT_OR_EQ(sync.time, MicroSeconds(1240), "time of a sync");
        }
        NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 40, "frames");
    }
};

/// A frame leaves before an event that is not due yet
class PromptTest : public FlushTest
{
  public:
    PromptTest()
        : FlushTest("AFrameLeavesBeforeTheSimulatorSleeps")
    {
    }

  private:
    void Realtime() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        Watch(device);
        Time due; // the clock after the frame was sent: the flush is due at that time or before
        Simulator::Schedule(MilliSeconds(1), [&]() {
            SendPayload(device, MakeFrame(60, 1));
            auto simulator = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
            due = simulator->RealtimeNow();
        });
        Simulator::Stop(MilliSeconds(3));
        Simulator::Run();
        NS_TEST_ASSERT_MSG_EQ(m_syncs.size(), 1, "syncs");
        NS_TEST_EXPECT_MSG_EQ((m_syncs[0].time <= due), true, "left at " << m_syncs[0].time);
        NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 1, "frames");
    }
};

/// An answer that arrives while frames are sent is received without the poll thread
class AnswerTest : public RealtimeTest
{
  public:
    AnswerTest()
        : RealtimeTest("AnAnswerDuringTheSendNeedsNoWakeUp")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 100; //!< frames to send, with an answer to each
    std::unique_ptr<RawPort> m_peer;        //!< the other end of the pipe

    /// \return how often the other threads of this process have waited
    static uint64_t CountWaits()
    {
        uint64_t waits = 0;
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
        {
            std::ifstream status(task.path() / "status");
            std::string line;
            while (task.path().filename() != std::to_string(getpid()) && std::getline(status, line))
            {
                const std::string name = "voluntary_ctxt_switches:";
                waits += line.rfind(name, 0) == 0 ? std::stoull(line.substr(name.size())) : 0;
            }
        }
        return waits;
    }

    void Answer(uint32_t, uint32_t frames)
    {
        m_peer->ReceiveAll();
        for (uint32_t i = 0; i < frames; i++)
        {
            m_peer->Send(MakeFrame(60, i));
        }
    }

    void Realtime() override
    {
        PipeEnds pipe;
        m_peer = std::make_unique<RawPort>(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        Received received;
        received.Connect(device);
        device->TraceConnectWithoutContext("TxSync", MakeCallback(&AnswerTest::Answer, this));
        for (uint32_t i = 0; i < FRAMES; i++)
        {
            Simulator::Schedule(MilliSeconds(10 + i), [device, i]() { SendPayload(device, MakeFrame(60, i)); });
        }
        uint64_t before = 0;
        Simulator::Schedule(MilliSeconds(9), [&before]() { before = CountWaits(); });
        Simulator::Stop(MilliSeconds(20 + FRAMES));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(received.frames.size(), FRAMES, "answers");
        NS_TEST_EXPECT_MSG_LT(CountWaits() - before, FRAMES / 2, "how often other threads waited");
    }
};

/// The poll thread has a higher priority than a simulator of real-time priority
class PriorityTest : public RealtimeTest
{
  public:
    PriorityTest()
        : RealtimeTest("ThePollThreadHasAHigherPriorityThanARealTimeSimulator")
    {
    }

  private:
    static constexpr int PRIORITY = 1; //!< of the simulator
    bool m_found{false};               //!< whether a thread has the next higher priority

    void Look()
    {
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
        {
            sched_param scheduling{};
            sched_getparam(std::stoi(task.path().filename()), &scheduling);
            m_found = m_found || scheduling.sched_priority == PRIORITY + 1;
        }
        if (m_found)
        {
            Simulator::Stop();
            return;
        }
        Simulator::Schedule(MilliSeconds(1), &PriorityTest::Look, this);
    }

    void Realtime() override
    {
        sched_param scheduling{};
        scheduling.sched_priority = PRIORITY + 1; // the poll thread's
        if (sched_setscheduler(0, SCHED_FIFO, &scheduling) != 0)
        {
            std::cout << "skipped: this process may not have a real-time priority of 2" << std::endl;
            return;
        }
        scheduling.sched_priority = PRIORITY;
        sched_setscheduler(0, SCHED_FIFO, &scheduling);
        PipeEnds pipe;
        RawPort peer(pipe.first);
        MakeDevice(pipe.second);
        Simulator::Schedule(MilliSeconds(1), &PriorityTest::Look, this);
        Simulator::Stop(Seconds(10));
        Simulator::Run();
        scheduling.sched_priority = 0;
        sched_setscheduler(0, SCHED_OTHER, &scheduling);
        NS_TEST_EXPECT_MSG_EQ(m_found, true, "a thread with a higher priority than the simulator");
    }
};

/// Frames for which byte queue limits stop the queue leave immediately
class LimitedTest : public FlushTest
{
  public:
    LimitedTest()
        : FlushTest("ALateSimulatorSendsAtOnceWhatStopsTheQueue")
    {
    }

  private:
    void Realtime() override
    {
        auto limits = CreateObject<NotingLimits>();
        limits->limit = 150;
        Bottleneck link(64, limits);
        Watch(link.device);
        BeLate();
        Simulator::Schedule(MicroSeconds(1001), [&]() { link.Send(2, 100); });
        Simulator::Stop(MilliSeconds(3));
        Simulator::Run();
        std::vector<Sync> expected{{MicroSeconds(1001), 2}};
        NS_TEST_EXPECT_MSG_EQ((m_syncs == expected), true, m_syncs.size() << " syncs");
    }
};

/// Timers run while the ring has frames all the time
class BusyTest : public RealtimeTest
{
  public:
    BusyTest()
        : RealtimeTest("TimersRunWhileTheRingHasFrames")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 500; //!< frames, of which each takes 50 us

    uint32_t m_received{0}; //!< frames received

    bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&)
    {
        auto simulator = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
        const Time end = simulator->RealtimeNow() + MicroSeconds(50);
        while (simulator->RealtimeNow() < end)
        {
        }
        if (++m_received == FRAMES)
        {
            Simulator::Stop();
        }
        return true;
    }

    void Realtime() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        device->SetAttribute("RxBurst", UintegerValue(1));
        device->SetReceiveCallback(MakeCallback(&BusyTest::Receive, this));
        uint32_t before = FRAMES;
        Simulator::Schedule(MilliSeconds(1), [&]() {
            for (uint32_t i = 0; i < FRAMES; i++)
            {
                peer.Send(MakeFrame(60, i));
            }
            Simulator::Schedule(MilliSeconds(2), [&]() { before = m_received; });
        });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_received, FRAMES, "frames");
        NS_TEST_EXPECT_MSG_LT(before, FRAMES, "frames before the timer");
    }
};

/// The suite
class SlipringRealtimeTestSuite : public TestSuite
{
  public:
    SlipringRealtimeTestSuite()
        : TestSuite("slipring-net-device-realtime", SLIPRING_SUITE_SYSTEM)
    {
        AddTestCase(new ThreadsTest, SLIPRING_TEST_QUICK);
        AddTestCase(new PipeTest, SLIPRING_TEST_QUICK);
        AddTestCase(new IdleTest, SLIPRING_TEST_QUICK);
        AddTestCase(new SpuriousTest, SLIPRING_TEST_QUICK);
        AddTestCase(new RestartTest, SLIPRING_TEST_QUICK);
        AddTestCase(new LateTest, SLIPRING_TEST_QUICK);
        AddTestCase(new PromptTest, SLIPRING_TEST_QUICK);
        AddTestCase(new LimitedTest, SLIPRING_TEST_QUICK);
        AddTestCase(new BusyTest, SLIPRING_TEST_QUICK);
        AddTestCase(new AnswerTest, SLIPRING_TEST_QUICK);
        AddTestCase(new PriorityTest, SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringRealtimeTestSuite g_slipringRealtimeTestSuite;

} // namespace
