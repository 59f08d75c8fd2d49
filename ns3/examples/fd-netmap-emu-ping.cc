// SPDX-License-Identifier: GPL-2.0-only
//
// Pings a real host from a simulated node, with UDP traffic in the background.
//
//   simulated node 10.0.1.11 --- veth0 ======= veth1 --- host 10.0.1.2
//
//   ns3/examples/run.sh ping --background=50Mbps

#include "fd-netmap-emu.h"

using namespace emu;

int
main(int argc, char** argv)
{
    ExampleOptions options;
    std::string client = "10.0.1.11";
    std::string server = "10.0.1.2";
    std::string background = "10Mbps";
    double pingInterval = 0.1;
    CommandLine line(__FILE__);
    options.AddTo(line);
    line.AddValue("client", "address of the simulated node", client);
    line.AddValue("server", "address of the host to ping", server);
    line.AddValue("background", "rate of UDP to the server's discard port; 0bps: none", background);
    line.AddValue("pingInterval", "s between pings", pingInterval);
    line.Parse(argc, argv);

    SlipringNetDeviceHelper::EnableRealtime();
    auto node = CreateObject<Node>();
    auto device = Install(options, node, options.deviceName, client);
    if (!device)
    {
        return 1;
    }
    const Time stop = Seconds(options.duration);
    Pinger pinger;
    if (options.ping)
    {
        pinger.Start(node, server, Seconds(pingInterval), stop);
    }
    if (DataRate(background).GetBitRate() > 0)
    {
        OnOffHelper source("ns3::UdpSocketFactory", InetSocketAddress(server.c_str(), 9));
        source.SetConstantRate(DataRate(background), 1400);
        auto applications = source.Install(node);
        applications.Start(MilliSeconds(100));
        applications.Stop(stop);
    }
    Sampler sampler;
    sampler.Start(device, Seconds(options.interval));
    Simulator::Stop(stop);
    RunUntilSignal();
    sampler.Print();
    pinger.Print();
    PrintDevice(device);
    Simulator::Destroy();
    return 0;
}
