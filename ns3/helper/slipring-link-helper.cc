// SPDX-License-Identifier: GPL-2.0-only

#include "slipring-link-helper.h"

#include "ns3/abort.h"
#include "ns3/data-rate.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/pointer.h"
#include "ns3/slipring-link-channel.h"

namespace ns3
{

SlipringLinkHelper::SlipringLinkHelper()
{
    m_device.SetTypeId("ns3::PointToPointNetDevice");
    m_device.Set("DataRate", DataRateValue(DataRate("10Gbps")));
    m_link.SetTypeId("ns3::SlipringLink");
}

void
SlipringLinkHelper::SetDeviceAttribute(std::string name, const AttributeValue& value)
{
    m_device.Set(name, value);
}

void
SlipringLinkHelper::SetLinkAttribute(std::string name, const AttributeValue& value)
{
    m_link.Set(name, value);
}

Ptr<SlipringLinkChannel>
SlipringLinkHelper::MakeChannel() const
{
    auto channel = CreateObject<SlipringLinkChannel>();
    channel->SetAttribute("Link", PointerValue(m_link.Create<SlipringLink>()));
    return channel;
}

Ptr<NetDevice>
SlipringLinkHelper::MakeDevice(Ptr<Node> node, Ptr<SlipringLinkChannel> channel) const
{
    auto device = m_device.Create<PointToPointNetDevice>();
    device->SetAddress(Mac48Address::Allocate());
    device->SetQueue(CreateObject<DropTailQueue<Packet>>());
    node->AddDevice(device);
    // Flow control: a full device queue stops the queue discs above it.
    auto queues = CreateObject<NetDeviceQueueInterface>();
    queues->GetTxQueue(0)->ConnectQueueTraces(device->GetQueue());
    device->AggregateObject(queues);
    device->Attach(channel);
    return device;
}

NetDeviceContainer
SlipringLinkHelper::Install(Ptr<Node> a, Ptr<Node> b, const std::string& path) const
{
    std::string error;
    NetDeviceContainer devices = TryInstall(a, b, path, error);
    NS_ABORT_MSG_IF(devices.GetN() == 0, path << ": " << error);
    return devices;
}

NetDeviceContainer
SlipringLinkHelper::TryInstall(Ptr<Node> a,
                               Ptr<Node> b,
                               const std::string& path,
                               std::string& error) const
{
    auto channel = MakeChannel();
    return Finish(channel->Load(path), a, b, channel, error);
}

NetDeviceContainer
SlipringLinkHelper::TryInstallText(Ptr<Node> a,
                                   Ptr<Node> b,
                                   const std::string& toml,
                                   std::string& error) const
{
    auto channel = MakeChannel();
    return Finish(channel->Parse(toml), a, b, channel, error);
}

NetDeviceContainer
SlipringLinkHelper::Finish(bool loaded,
                           Ptr<Node> a,
                           Ptr<Node> b,
                           Ptr<SlipringLinkChannel> channel,
                           std::string& error) const
{
    if (!loaded)
    {
        error = channel->GetError();
        return NetDeviceContainer();
    }
    NetDeviceContainer devices(MakeDevice(a, channel));
    devices.Add(MakeDevice(b, channel));
    return devices;
}

} // namespace ns3
