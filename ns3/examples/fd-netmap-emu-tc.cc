// SPDX-License-Identifier: GPL-2.0-only
//
// A simulated router with two real interfaces, of which the second one is the bottleneck. Shows
// what queue discs and byte queue limits do to the backlog of a real device.
//
//   host A 10.0.1.2 --- veth0 [10.0.1.1  simulated router  10.0.2.1] veth2 --- host B 10.0.2.2
//                                            queue disc  ^ tx ring
//
//   ns3/examples/run.sh tc --qdisc=FqCoDel --bql=true --wire=100Mbps

#include "fd-netmap-emu.h"

using namespace emu;

int
main(int argc, char** argv)
{
    ExampleOptions options;
    std::string deviceName2 = "veth2";
    std::string address = "10.0.1.1";
    std::string address2 = "10.0.2.1";
    std::string server = "10.0.2.2";
    CommandLine line(__FILE__);
    options.AddTo(line);
    line.AddValue("deviceName2", "the interface on the side of the server", deviceName2);
    line.AddValue("address", "the router's address at deviceName", address);
    line.AddValue("address2", "the router's address at deviceName2", address2);
    line.AddValue("server", "address of the host behind deviceName2, to ping", server);
    line.Parse(argc, argv);

    SlipringNetDeviceHelper::EnableRealtime();
    auto node = CreateObject<Node>();
    // The wire is on the side of the server.
    ExampleOptions unlimited = options;
    unlimited.wire = "0bps";
    auto first = Install(unlimited, node, options.deviceName, address);
    auto second = first ? Install(options, node, deviceName2, address2) : nullptr;
    if (!second)
    {
        return 1;
    }
    const Time stop = Seconds(options.duration);
    Pinger pinger;
    if (options.ping)
    {
        pinger.Start(node, server, MilliSeconds(100), stop);
    }
    Sampler sampler;
    sampler.Start(second, Seconds(options.interval));
    Simulator::Stop(stop);
    RunUntilSignal();
    sampler.Print();
    pinger.Print();
    PrintDevice(first);
    PrintDevice(second);
    Simulator::Destroy();
    return 0;
}
