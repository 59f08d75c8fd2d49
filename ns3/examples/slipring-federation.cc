// SPDX-License-Identifier: GPL-2.0-only
//
// One of several simulations that run in real time and share a switch of a daemon:
//
//   process A: node 10.0.9.1 -- vale9:a --+
//                                         +-- slipring daemon
//   process B: node 10.0.9.2 -- vale9:b --+
//
//   slipring-federation --port=vale9:a --runDir=/run/slipring --address=10.0.9.1 --ping=10.0.9.2
//
// ns3/examples/federation.sh starts a daemon and both processes.

#include "fd-netmap-emu.h"

using namespace emu;

int
main(int argc, char** argv)
{
    std::string port = "vale9:a";
    std::string runDir;
    std::string address = "10.0.9.1";
    std::string mac = "02:00:00:00:09:01";
    std::string remote;
    double duration = 5;
    CommandLine line(__FILE__);
    line.AddValue("port", "port of slipring: of a switch (vale9:a), or a pipe's end (x{1)", port);
    line.AddValue("runDir", "run directory of the daemon", runDir);
    line.AddValue("address", "address of the node", address);
    line.AddValue("mac", "hardware address of the node; a different one in each process", mac);
    line.AddValue("ping", "address of a node of another process", remote);
    line.AddValue("duration", "s", duration);
    line.Parse(argc, argv);

    SlipringNetDeviceHelper::EnableRealtime();
    auto node = CreateObject<Node>();
    SlipringNetDeviceHelper helper;
    helper.SetAttribute("PortName", StringValue(port));
    helper.SetAttribute("RunDir", StringValue(runDir));
    const auto result = helper.TryInstall(node);
    if (!result)
    {
        std::cerr << port << ": " << result.error << std::endl;
        return 1;
    }
    auto device = result.devices.Get(0);
    device->SetAttribute("Address", Mac48AddressValue(mac.c_str()));
    InternetStackHelper().Install(node);
    auto ipv4 = node->GetObject<Ipv4>();
    const uint32_t interface = ipv4->AddInterface(device);
    ipv4->AddAddress(interface, Ipv4InterfaceAddress(address.c_str(), "255.255.255.0"));
    ipv4->SetUp(interface);
    Pinger pinger;
    if (!remote.empty())
    {
        pinger.Start(node, remote, MilliSeconds(100), Seconds(duration));
    }
    Sampler sampler;
    sampler.Start(device, Seconds(1));
    Simulator::Stop(Seconds(duration));
    Simulator::Schedule(Time(0), [] { std::cout << "ready" << std::endl; });
    RunUntilSignal();
    sampler.Print();
    pinger.Print();
    PrintDevice(device);
    Simulator::Destroy();
    return 0;
}
