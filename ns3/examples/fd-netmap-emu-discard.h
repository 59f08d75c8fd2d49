// SPDX-License-Identifier: GPL-2.0-only
//
// A device that takes no time. So the time that a packet takes with it is what the rest of the
// program takes.

#ifndef FD_NETMAP_EMU_DISCARD_H
#define FD_NETMAP_EMU_DISCARD_H

#include "ns3/fd-net-device-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

#include <iostream>

namespace emu
{

/// Discards each packet at once, and receives nothing. Like the stock device, it has no flow
/// control.
class DiscardingDevice : public ns3::FdNetDevice
{
  public:
    bool Send(ns3::Ptr<ns3::Packet>, const ns3::Address&, uint16_t) override
    {
        m_discarded++;
        return true;
    }

    uint64_t Discarded() const
    {
        return m_discarded;
    }

  private:
    uint64_t m_discarded{0};
};

/// Makes \p node know the host \p address behind \p device, where no node answers ARP.
inline void
AddNeighbour(ns3::Ptr<ns3::Node> node, ns3::Ptr<ns3::NetDevice> device, const std::string& address)
{
    auto ip = node->GetObject<ns3::Ipv4L3Protocol>();
    auto cache = ip->GetInterface(ip->GetInterfaceForDevice(device))->GetArpCache();
    auto* entry = cache->Add(ns3::Ipv4Address(address.c_str()));
    entry->SetMacAddress(ns3::Mac48Address::Allocate());
    entry->MarkPermanent();
}

/// Prints how many packets a discarding device has discarded; nothing for another device.
inline void
PrintDiscarded(ns3::Ptr<ns3::NetDevice> device)
{
    if (auto discarding = ns3::DynamicCast<DiscardingDevice>(device))
    {
        std::cout << "discarded " << discarding->Discarded() << " packets" << std::endl;
    }
}

} // namespace emu

#endif // FD_NETMAP_EMU_DISCARD_H
