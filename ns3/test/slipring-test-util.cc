/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-test-util.h"

#include "slipring-net-device-impl.h"
#include "slipring-poller.h"

#include "ns3/fatal-error.h"
#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"

#include <cstring>
#include <slipring.h>

namespace ns3
{

void
SlipringNetDeviceTestAccess::PostSpuriousWake(Ptr<SlipringNetDevice> device)
{
    Simulator::ScheduleWithContext(
        device->GetNode()->GetId(),
        Time(0),
        new SlipringNetDevice::Event(device->m_guard, &SlipringNetDevice::Service));
}

void
SlipringNetDeviceTestAccess::DisturbPoller(Ptr<SlipringNetDevice> device)
{
    device->m_poller->Disturb();
}

namespace slipringtest
{

std::string
PipeName(const std::string& prefix)
{
    static uint32_t number = 0;
    return prefix + std::to_string(number++);
}

Frame
MakeFrame(std::size_t length, uint32_t seed)
{
    Frame frame(length, 0);
    std::fill_n(frame.begin(), 6, 0xff);
    frame[6] = 2;
    frame[12] = 0x88;
    frame[13] = 0xb5;
    uint32_t state = seed * 2654435761U + 1;
    for (std::size_t i = 14; i < length; i++)
    {
        state = state * 1664525U + 1013904223U;
        frame[i] = static_cast<uint8_t>(state >> 24);
    }
    return frame;
}

RawPort::RawPort(const std::string& name, uint32_t slots, uint32_t flags)
    : m_port(nullptr)
{
    slipring_options options;
    std::memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    options.slots = slots;
    options.flags = flags;
    if (slipring_open(name.c_str(), &options, &m_port) < 0)
    {
        NS_FATAL_ERROR(name << ": " << slipring_error_message());
    }
}

RawPort::~RawPort()
{
    Close();
}

void
RawPort::Close()
{
    slipring_close(m_port);
    m_port = nullptr;
}

bool
RawPort::Send(const Frame& frame, uint32_t queue)
{
    slipring_tx_sync(m_port, queue);
    bool sent = slipring_send(m_port, queue, frame.data(), frame.size()) == 1;
    slipring_tx_sync(m_port, queue);
    return sent;
}

bool
RawPort::Receive(Frame& frame, uint32_t queue)
{
    frame.resize(65536);
    std::size_t length = 0;
    slipring_rx_sync(m_port, queue);
    if (slipring_receive(m_port, queue, frame.data(), frame.size(), &length) != 1)
    {
        return false;
    }
    frame.resize(length);
    slipring_rx_sync(m_port, queue);
    return true;
}

uint32_t
RawPort::ReceiveAll()
{
    Frame frame;
    uint32_t frames = 0;
    while (Receive(frame))
    {
        frames++;
    }
    return frames;
}

void
Received::Connect(Ptr<NetDevice> device)
{
    device->SetReceiveCallback(MakeCallback(&Received::Receive, this));
}

bool
Received::Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
{
    Frame payload(packet->GetSize());
    packet->CopyData(payload.data(), packet->GetSize());
    frames.push_back(payload);
    return true;
}

Ptr<SlipringNetDevice>
MakeDevice(const std::string& portName, uint32_t slots)
{
    SlipringNetDeviceHelper helper(portName);
    helper.SetAttribute("RingSlots", UintegerValue(slots));
    return DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
}

bool
SendPayload(Ptr<NetDevice> device, const Frame& frame)
{
    Ptr<Packet> packet = Create<Packet>(frame.data() + 14, static_cast<uint32_t>(frame.size() - 14));
    return device->Send(packet, device->GetBroadcast(), 0x88b5);
}

FunctionTest::FunctionTest(std::string name, std::function<void(FunctionTest&)> function)
    : TestCase(name),
      m_function(function)
{
}

void
FunctionTest::DoRun()
{
    m_function(*this);
    Simulator::Destroy();
}

QueuedDevice::QueuedDevice(const std::string& portName, uint32_t slots, Ptr<QueueLimits> limits)
{
    device = MakeDevice(portName, slots);
    node = device->GetNode();
    Ptr<TrafficControlLayer> layer = CreateObject<TrafficControlLayer>();
    node->AggregateObject(layer);
    layer->SetNode(node);
    TrafficControlHelper helper;
    helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("5000p"));
    discs = helper.Install(device);
    if (limits)
    {
        device->GetObject<NetDeviceQueueInterface>()->GetTxQueue(0)->SetQueueLimits(limits);
    }
}

void
QueuedDevice::Send(uint32_t count, uint32_t size)
{
    for (uint32_t i = 0; i < count; i++)
    {
        Ipv4Header header;
        header.SetPayloadSize(size);
        auto item = Create<Ipv4QueueDiscItem>(Create<Packet>(size), device->GetBroadcast(), 0x0800, header);
        node->GetObject<TrafficControlLayer>()->Send(device, item);
    }
}

Bottleneck::Bottleneck(uint32_t slots, Ptr<QueueLimits> limits, const PipeEnds& pipe)
    : QueuedDevice(pipe.second, slots, limits),
      peer(pipe.first, slots)
{
}

} // namespace slipringtest
} // namespace ns3
