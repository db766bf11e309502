//! Ways out.

use super::{Attempt, Context, Outcome, errno};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("connect_tcp", |context| TcpStream::connect((Ipv4Addr::LOCALHOST, context.tcp_port)).map(drop).map_err(errno)),
    ("send_udp", send_udp),
    ("raw_icmp", |_| open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("netlink_socket", |_| open(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    ("packet_socket", |_| open(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("vsock_socket", |_| open(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("crypto_socket", |_| open(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    ("abstract_socket", abstract_socket),
    ("path_socket", |context| UnixStream::connect(&context.path_socket).map(drop).map_err(errno)),
    ("run_directory", |_| std::fs::read_dir("/run").map(drop).map_err(errno)),
    ("ip_socket", |_| socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).map(drop)),
];

fn open(family: i32, kind: i32, protocol: i32) -> Outcome {
    super::call(libc::SYS_socket, &[family as usize, kind as usize, protocol as usize]).map(drop)
}

fn send_udp(context: &Context) -> Outcome {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(errno)?;
    socket.send_to(context.canary.as_bytes(), (Ipv4Addr::LOCALHOST, context.udp_port)).map(drop).map_err(errno)
}

fn abstract_socket(context: &Context) -> Outcome {
    let address = SocketAddr::from_abstract_name(&context.abstract_name).or(Err(Errno::ENOTRECOVERABLE))?;
    UnixStream::connect_addr(&address).map(drop).map_err(errno)
}
