// SPDX-License-Identifier: GPL-2.0-only
//
// UDP between two simulated nodes over the links of a TOML file: the file of `slipring emulate`.
//
//   slipring-link-udp --links=ns3/examples/lte.toml --rate=20Mbps --duration=10

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/slipring-link-channel.h"
#include "ns3/slipring-link-helper.h"
#include "ns3/slipring-link.h"

#include <iostream>

using namespace ns3;

int
main(int argc, char** argv)
{
    std::string links = "ns3/examples/lte.toml";
    std::string rate = "20Mbps";
    uint64_t seed = 1;
    double duration = 10;
    CommandLine line(__FILE__);
    line.AddValue("links", "TOML file with links between two ports", links);
    line.AddValue("rate", "offered rate of UDP from the first node", rate);
    line.AddValue("seed", "seed, unless the file has one", seed);
    line.AddValue("duration", "s of simulation", duration);
    line.Parse(argc, argv);

    NodeContainer nodes(2);
    SlipringLinkHelper helper;
    helper.SetLinkAttribute("Seed", UintegerValue(seed));
    std::string error;
    auto devices = helper.TryInstall(nodes.Get(0), nodes.Get(1), links, error);
    if (devices.GetN() == 0)
    {
        std::cerr << links << ": " << error << std::endl;
        return 1;
    }
    InternetStackHelper().Install(nodes);
    auto addresses = Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices);
    const InetSocketAddress server(addresses.GetAddress(1), 9);
    auto sinks = PacketSinkHelper("ns3::UdpSocketFactory", server).Install(nodes.Get(1));
    OnOffHelper source("ns3::UdpSocketFactory", server);
    source.SetConstantRate(DataRate(rate), 1400);
    auto sources = source.Install(nodes.Get(0));
    sources.Stop(Seconds(duration));
    Simulator::Run();

    const uint64_t bytes = DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx();
    std::cout << "received " << bytes * 8 / duration / 1e6 << " Mbit/s\n";
    auto link = DynamicCast<SlipringLinkChannel>(devices.Get(0)->GetChannel())->GetLink();
    for (uint32_t number = 0; number < link->GetNLinks(); number++)
    {
        const auto seen = link->GetCounters(number);
        std::cout << link->GetLinkName(number) << ": in " << seen.input << " + copies "
                  << seen.copied << " = out " << seen.output << " + lost " << seen.dropped
                  << " + in flight " << seen.inFlight << "\n";
    }
    Simulator::Destroy();
    return 0;
}
