"""The script of each Unicode character, as numbers of ICU's ``UScriptCode``.

The table is compressed pairs of varints, one for each run of characters of one script: the distance of its start from
the last one, and the script's number plus one.

Source: https://www.unicode.org/Public/UNIDATA/Scripts.txt, as ICU has it in TensorFlow 2.21
"""

from __future__ import annotations

import base64
import functools
import itertools
import zlib

import numpy as np

LAST = 0x10FFFF
_RUNS = (
    "c-nndTZ~m#8TMam@3Z$ld!Mt<+2_ohnLW3|;mnPJxdFp4Kp7Z|kWPUL6lkI00ViLbRtlkQD5RaVSP%=+l0XX)kV^~L=u|0)PywUqgE8?z8%<0f"
    "d^ItBFzSnm-`X4|rZGNz>+-Ml|Lb4>ZLP1!ia3@O(HDz^gdLYe;x^*Gmd@A~JEf$kUI;C&YpA3bSfQ9cp_#daMPj*|4RhYNMJewpX;uf6HArwz"
    "aS_~N6RctizP3elipUb&rzuC5iL~-{tVBP@ab<QEGJ7f1Y_0n{29e#e1Zs<ZtrzOG5VENmY7=>9`&g*!C?ld=Dx_QdCzR!fqWsvlAhru-E25rb"
    "hY)DemF?B&7F^OSj>Wb)Z-mNI-+T&Ip6hw?<;lnKL#RB@&D*tg4b8ce=UGXgM><FToJW|R{5kUH$eW}5T)IZ5Epvh}M_qCO9J8lPdYSr`DYs0%"
    "vZ0Z$Oun*LqiZ;XHA9b(u5w&WL08FNwb+|Eb!4v-P{(Qjt7^~eQCv?E*=il^_6($*^!5^wgKl?ga|=$pO2#(Fsy)rQSI^z`T&?Hsdfuj<TGV?r"
    "8ae6}A<0-J>k64B@-%V1X@0Gzb(?ZfO);dxc_o6bG_a?fia=Ey&gqp(Dw#{gMXHh}T_flm0b{VU8SRbKt&yvZHqlTUm!Oil8K*cVSEGe;*J?;t"
    "6;@Yg(n}X(sLK(nOQF5xykt5c8G%ixOpi#$Dom+h4J6<#0{S74+PJ&c&-x#0lo>3pjmL;GbPyxuJPGAcm+mRMwFP?CW1?sIaC&Hz9tZy1I#KZE"
    "6%q83(o1vnDg+JBKsBV1GH6z!nwcccG*7dcZ-vv`1G{?_(gSUf0XjDUgL@!Y*b24KhQD+!tff4DsSmwWHI#>$GQ(<eIb^a0YSKq)lCmbVP%4k*"
    "%g13Yp9j5XbaVmSQES66^oEeo-|F`~IGG+=M(=UqD(0)o5Hz0>VSNy-*uaiELfeygAhctP$Z))hnK%Mbc08rRde#rxA?&F2Zmo7aL>p-f+0%|;"
    "HrXR#fxW3Qyt)KDW;1&~rkhMF+!<$}rHq`Kg-|+731A6Hajl8S$KAqgkyADr#Ydf-clxH3{GA>mkI1u&`yd8!+1(4<b^bdLmJP#MrjT7GK?z>s"
    ">Hh<-EE_N{Vnjz<5k#K}VxdpOj_5g}G4hmEP~t|GuvpYFD0m%JM{Aaz5>;Z7rFtNRXQ);#RhBA(Qm#Pn%4nfYo+$Nk-xj$d(Y^UH8vXkseLd%>"
    "$7T_{gVMkALxrNZ;|<vYS1R!Y&9D$E_An>*m(Z_5Uq3wz_k~qNfRtZe-z&0Sc2(i;k^<v$-CCX{>(a2+sTQ6)M!{or!x&R&%xWo5$ru`@#NJy%"
    "I-vV%m@!PuyotR~VvF%?IqUbbRPW`fg-e?e6iToP130)c`WvfQ^i6cc4g$-DU8Kc|%-A9$pr~p{>pjTpztTR)=}{;>gf49&HD~UjvYwLJ)V4ra"
    "ur%5AArljnA?4bW=9khm**sA+qApO`8L%D-6(-Wc>NOZZ2C2m$#SQZG!H~2pDuerBC(&cf=Y{LY!B}IY_Q^aYcwL^O)t((d$aDF$wN>G@>1-41"
    "r<j{Vt&kykgeB*ZEas%wFX*4oyqr(%Kcs7|r1_3?!96bv;Gd`F$7SP97J`lSNN;rUuJlvYeqN}5F2OR+G3PJxVR+GdTgu0!4eoLA(0|d`;UZ0C"
    "Ule;=GxRojK8F3gV03f&m^8pTCPk=Y(mTSy8{xhYX5I+1YJ`P=y*0whKEfn_Q_A0CUX)+yg!M`Q@1-H=mz-Cbx39YU3$XXQ2O>BJECdG}tlzo@"
    "iyohk4B<SUx@j(RlkRz6X-3a|nPVD0bN8v)+FNGzXQVy(3u#92=faFyxfa&SR)i~M-%9xVc)j<e5zc$Y#V@lCyd1&(fpo%qS9b6XD8fH05#+4Q"
    "#fr<uftQWHFPm(-Y%0NJW_aoySpxeVBjSizI3j#dk5B_P^=9grMwx~|qu6;f>)JG87+C<!PGuTxc79iWDBHlsM(a6Q4fmY6sC*zpP#;JKDwpI@"
    "_?OJF%^4I<%VIdEIUBmb$WRxkopnKSxF<iArPz6bl_EGHa@U-3m#49zNA4QE?n>)}5oz?mT?$!s$6Vr$^qR&;(@%^7A5lij`#k56y2?AqRYobB"
    "EYeqnVR?;iRM*UvuaUN9+T45E$e*V5^t3TtZR)|DHhNzdmfP!wc3s+MMkzSgxq3r=OxN6$gJcY=gUD26;<ST_iCvHhzBLoS65Od<{bSx@wTDmJ"
    "zAv9zxHa~M+~SYmBqLQ$Qi^qwLU$bE4b>q^PLK2b8s`^boXU;!BQjpVw0%RK#y7S<25UQQxIK^2Ga{#0nAAO<?MJM~XXIafaL>q8>YjY2G3N~L"
    "@Xtp}Qg>EipiU!S;-~JEyrpq4IxLg051YI_%w5i5YM~B`slb2kkbejZKqt$_BYe~H%H_w^kyd3fgi7HmoED}{z!%5k-4BUuVgdLXp^`$QlHM}U"
    "lBt_XIT2ZrR3v5GnarD$xtL(%o(E;;_lEJ3X$E({Wh30p#oZx(mtM@(#d)Ztr}-D#_=DUw<>xk?sBRk*-sZ7is83`B_9v7$l|CxJrZPtvUENoN"
    "kN6d{>k4<hoszF&T$bUNqN##zB9!@Uvz(e=Hw~ZAlOH%zgjE|qfd10{FXQ2wk>S*2J(Oo;=V2!@>}0%v`;RFGpCvnKRF+tivI*Mhg&zrqC9X5Z"
    "%_N)XERM4b6T0D#4j(o1&Kv9{J3l})dog)n`KX!rH3h~*mZ>(fk7B=0@KFei>1cn={I+R-<4h;%HIH)8Ehmig7NMO|-gKkSf2&Z5J}xuXKIiqK"
    "*XJP{eKdk|4bfQ(fAOQ=bl}FH_|~D7Wob&(7lQu)6~axh"
)


def scripts_of(codes: np.ndarray) -> np.ndarray:
    """Returns the scripts of code points, and -1 for numbers that are no code points.

    >>> scripts_of(np.array([ord("a"), ord("я"), -1])).tolist()
    [25, 8, -1]
    """
    starts, numbers = _table()
    # The last run of characters that begins at the code point or before it.
    run = np.searchsorted(starts, codes, side="right") - 1
    return np.where((codes >= 0) & (codes <= LAST), numbers[run], -1).astype(np.int32)


@functools.cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Returns the first code point of each run of characters of one script, and the run's script."""
    values = _varints(zlib.decompress(base64.b85decode("".join(_RUNS))))
    return np.array(list(itertools.accumulate(values[::2]))), np.array(values[1::2]) - 1


def _varints(data: bytes) -> list[int]:
    """Decodes a sequence of varints (integers of variable length) from bytes.

    Each byte has seven bits of a number, the lowest first. The high bit is set in all bytes of a number but the last.
    """
    values: list[int] = []
    value = 0
    shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        is_last = byte < 0x80
        if is_last:
            values.append(value)
            value = 0
            shift = 0
    return values
