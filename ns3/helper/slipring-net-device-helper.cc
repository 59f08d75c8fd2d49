/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-net-device-helper.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/global-value.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <cerrno>
#include <cstring>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringNetDeviceHelper");

SlipringNetDeviceHelper::SlipringNetDeviceHelper()
{
    SetTypeId("ns3::SlipringNetDevice");
    m_factory.SetTypeId("ns3::SlipringNetDevice");
}

SlipringNetDeviceHelper::SlipringNetDeviceHelper(const std::string& portName)
    : SlipringNetDeviceHelper()
{
    SetPortName(portName);
}

void
SlipringNetDeviceHelper::SetAttribute(std::string name, const AttributeValue& value)
{
    // ns-3's netmap device takes its period in µs, as an integer.
    auto micros = dynamic_cast<const UintegerValue*>(&value);
    if (name == "SyncAndNotifyQueuePeriod" && micros)
    {
        m_factory.Set(name, TimeValue(MicroSeconds(micros->Get())));
        return;
    }
    m_factory.Set(name, value);
}

void
SlipringNetDeviceHelper::SetPortName(const std::string& portName)
{
    m_factory.Set("PortName", StringValue(portName));
}

void
SlipringNetDeviceHelper::SetDeviceName(std::string deviceName)
{
    if (deviceName.find_first_of(":{}") != std::string::npos)
    {
        SetPortName(deviceName);
        return;
    }
    // A `-` of an interface's name is written twice in the name of a port.
    std::string portName = "netmap:";
    for (char letter : deviceName)
    {
        portName += letter == '-' ? "--" : std::string(1, letter);
    }
    SetPortName(portName);
}

Ptr<SlipringNetDevice>
SlipringNetDeviceHelper::CreateOpen(const std::string& portName, SlipringError& error) const
{
    Ptr<SlipringNetDevice> device = m_factory.Create<SlipringNetDevice>();
    if (!portName.empty())
    {
        device->SetAttribute("PortName", StringValue(portName));
    }
    error = device->Open();
    if (error)
    {
        device->Dispose();
        return nullptr;
    }
    return device;
}

void
SlipringNetDeviceHelper::Attach(Ptr<Node> node, Ptr<SlipringNetDevice> device)
{
    if (device->GetAddress() == Mac48Address::GetBroadcast())
    {
        device->SetAddress(Mac48Address::Allocate());
    }
    node->AddDevice(device);
    device->AggregateObject(CreateObjectWithAttributes<NetDeviceQueueInterface>(
        "NTxQueues",
        UintegerValue(device->GetNTxQueues())));
}

Ptr<SlipringNetDevice>
SlipringNetDeviceHelper::Create(Ptr<Node> node,
                                const std::string& portName,
                                SlipringError& error) const
{
    Ptr<SlipringNetDevice> device = CreateOpen(portName, error);
    if (device)
    {
        Attach(node, device);
    }
    return device;
}

Ptr<NetDevice>
SlipringNetDeviceHelper::InstallPriv(Ptr<Node> node) const
{
    SlipringError error;
    Ptr<SlipringNetDevice> device = Create(node, "", error);
    if (!device)
    {
        NS_FATAL_ERROR(error);
    }
    return device;
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstall(Ptr<Node> node) const
{
    SlipringInstallResult result;
    Ptr<SlipringNetDevice> device = Create(node, "", result.error);
    if (device)
    {
        result.devices.Add(device);
    }
    return result;
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name) const
{
    static uint32_t number = 0;
    if (name.empty())
    {
        name = "ns3pipe" + std::to_string(number++);
    }
    // A suffix of the name, such as @conf:rings=2, follows the mark of the end.
    std::size_t suffix = std::min(name.find('@'), name.size());
    std::string pipe = name.substr(0, suffix);
    std::string conf = name.substr(suffix);

    SlipringInstallResult result;
    Ptr<SlipringNetDevice> first = CreateOpen(pipe + "{1" + conf, result.error);
    if (!first)
    {
        return result;
    }
    Ptr<SlipringNetDevice> second = CreateOpen(pipe + "}1" + conf, result.error);
    if (!second)
    {
        first->Dispose();
        return result;
    }
    Attach(a, first);
    Attach(b, second);
    result.devices.Add(first);
    result.devices.Add(second);
    return result;
}

NetDeviceContainer
SlipringNetDeviceHelper::InstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name) const
{
    SlipringInstallResult result = TryInstallPipe(a, b, name);
    if (!result)
    {
        NS_FATAL_ERROR(result.error);
    }
    return result.devices;
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstallSwitch(const NodeContainer& nodes,
                                          const std::string& switchName) const
{
    SlipringInstallResult result;
    std::vector<Ptr<SlipringNetDevice>> devices;
    for (uint32_t i = 0; i < nodes.GetN(); i++)
    {
        std::string name = switchName + ":n" + std::to_string(nodes.Get(i)->GetId());
        Ptr<SlipringNetDevice> device = CreateOpen(name, result.error);
        if (!device)
        {
            for (auto& opened : devices)
            {
                opened->Dispose();
            }
            return result;
        }
        devices.push_back(device);
    }
    for (uint32_t i = 0; i < nodes.GetN(); i++)
    {
        Attach(nodes.Get(i), devices[i]);
        result.devices.Add(devices[i]);
    }
    return result;
}

NetDeviceContainer
SlipringNetDeviceHelper::InstallSwitch(const NodeContainer& nodes,
                                       const std::string& switchName) const
{
    SlipringInstallResult result = TryInstallSwitch(nodes, switchName);
    if (!result)
    {
        NS_FATAL_ERROR(result.error);
    }
    return result.devices;
}

void
SlipringNetDeviceHelper::EnableRealtime(bool bestEffort, Time limit)
{
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Config::SetDefault("ns3::RealtimeSimulatorImpl::SynchronizationMode",
                       StringValue(bestEffort ? "BestEffort" : "HardLimit"));
    Config::SetDefault("ns3::RealtimeSimulatorImpl::HardLimit", TimeValue(limit));
    Config::SetDefault("ns3::SlipringNetDevice::MaxRealtimeLag", TimeValue(limit));
}

void
SlipringEmuFdNetDeviceHelper::SetNetmapMode(bool enable)
{
    m_netmapMode = enable;
}

Ptr<NetDevice>
SlipringEmuFdNetDeviceHelper::InstallPriv(Ptr<Node> node) const
{
    if (!m_netmapMode)
    {
        return EmuFdNetDeviceHelper::InstallPriv(node);
    }
    SlipringNetDeviceHelper helper;
    helper.SetDeviceName(m_deviceName);
    return helper.Install(node).Get(0);
}

int
SlipringEmuFdNetDeviceHelper::CreateFileDescriptor() const
{
    int fd = socket(PF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (fd < 0)
    {
        NS_FATAL_ERROR(m_deviceName << ": no packet socket: " << std::strerror(errno)
                                    << "; try: sudo setcap cap_net_raw+ep on this program");
    }
    return fd;
}

} // namespace ns3
